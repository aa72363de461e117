"""A made-up objective: fit TPO's target under the squared distance instead of cross-entropy."""

from dataclasses import dataclass
from typing import Any, ClassVar

import torch

import tpo
from tpo.objectives.target import TargetObjective, log_scores_of, probabilities


@dataclass(frozen=True)
class SquaredFit(TargetObjective):
    """L = mean over contexts of ½Σ(p - q)², with q from any target objective."""

    traits: ClassVar[tpo.Traits] = tpo.Traits("target")
    target: tpo.Objective = tpo.objective("tpo")

    def signal(self, group: tpo.Group) -> Any:
        return self.target.prepare(group)

    def value(self, xp: Any, log_probs: Any, signal: Any) -> Any:
        p = probabilities(xp, log_scores_of(xp, log_probs, signal.rule), signal.candidates)
        return xp.sum((p - signal.q) ** 2) / (2 * len(p))

    slope = tpo.Objective.slope  # by automatic differentiation


tpo.register("squared_fit", SquaredFit)

if __name__ == "__main__":
    objective = tpo.objective("squared_fit", target=tpo.objective("tpo", eta=0.5))
    group = tpo.Group(log_probs_old=torch.zeros(1, 3, 1), scores=torch.tensor([[0.0, 1.0, 0.0]]))
    signal = objective.prepare(group)
    print("q:", signal.q)
    print("coefficients:", objective.coefficients(group.log_probs_old, signal)[0, :, 0])

"""An objective of your own: TPO's target, fitted under the squared distance instead of cross-entropy."""

from dataclasses import dataclass
from typing import Any, ClassVar

import torch

import tpo
from tpo.objectives.target_matching import log_scores_of, probabilities


@dataclass(frozen=True)
class SquaredFit(tpo.Objective):
    """L = mean over contexts of ½Σ(p - q)², with q from any target objective.

    It defines no `_coefficients`, so the gradient comes from automatic differentiation.
    """

    traits: ClassVar[tpo.Traits] = tpo.Traits("target")
    target: tpo.Objective = tpo.objective("tpo")

    def _prepare(self, groups: tpo.Groups) -> Any:
        return self.target.prepare(groups)

    def _loss(self, xp: Any, log_probs: Any, prepared: Any) -> Any:
        p = probabilities(xp, log_scores_of(xp, log_probs, prepared.rule), prepared.candidates)
        return xp.sum((p - prepared.q) ** 2) / (2 * len(p))


tpo.register("squared_fit", SquaredFit)

if __name__ == "__main__":
    objective = tpo.objective("squared_fit", target=tpo.objective("tpo", eta=0.5))
    groups = tpo.Groups(log_probs_old=torch.zeros(1, 3, 1), scores=torch.tensor([[0.0, 1.0, 0.0]]))
    prepared = objective.prepare(groups)
    print("q:", prepared.q)
    print("coefficients:", objective.coefficients(groups.log_probs_old, prepared)[0, :, 0])

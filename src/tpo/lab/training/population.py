"""Exact population updates for a task with one correct action: no sampling noise."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import tpo
from tpo.diagnostics.population import METHODS, population_beta
from tpo.objectives.base import Traits, choice
from tpo.objectives.weighted import WeightedObjective, prepare_policy


@dataclass(frozen=True)
class Population(WeightedObjective):
    r"""The expected update of a method, g = beta(p)·(e_y - pi), summed over contexts.

    .. math:: L = -\sum_b \mathrm{sg}(\beta(p_b)) \log \pi_b(y_b)

    Shapes: the group is all A actions, T = 1, scores 1 on the correct one; p its probability.
    beta is `tpo.diagnostics.population_beta`. For use with the rollout kind `oracle`, one epoch per batch.
    Source: arXiv 2604.06159, section 3.
    """

    traits: ClassVar[Traits] = Traits("population", epochs=False)

    method: str = choice("tpo", *METHODS)

    def _prepare(self, groups: tpo.Groups) -> Any:
        xp = groups.xp
        correct = groups.total
        p = xp.sum(xp.exp(groups.log_probs_old[..., 0]) * correct, axis=-1, keepdims=True)
        beta = population_beta(self.method, p, correct.shape[-1])
        weights = xp.ones_like(groups.log_probs_old)
        return prepare_policy(groups, (beta * correct)[..., None], weights)


tpo.register("population", Population, listed=False)

"""Exact population updates for a task with one correct action: no sampling noise."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import tpo
from tpo.arrays import Array
from tpo.diagnostics.population import METHODS, population_beta
from tpo.objectives.base import Traits, choice
from tpo.objectives.parts import LIKELIHOOD, Composed, Mean, Parts


@dataclass(frozen=True)
class Population(Composed):
    r"""The expected update of a method, g = beta(p)·(e_y - pi), summed over contexts.

    .. math:: L = -\sum_b \mathrm{sg}(\beta(p_b)) \log \pi_b(y_b)

    Shapes: the group is all A actions, T = 1, scores 1 on the correct one; p its probability.
    beta is `tpo.diagnostics.population_beta`. For use with the rollout kind `oracle`, one epoch per batch.
    Source: arXiv 2604.06159, section 3.
    """

    traits: ClassVar[Traits] = Traits("population", epochs=False)

    method: str = choice("tpo", *METHODS)

    def parts(self) -> Parts:
        return Parts(advantage=self._push, surrogate=LIKELIHOOD, weights=Mean("sum"))

    def _push(self, groups: tpo.Groups) -> Array:
        """[B, A] beta on the correct action, 0 elsewhere"""
        xp, correct = groups.xp, groups.total
        p = xp.sum(xp.exp(groups.log_probs_old[..., 0]) * correct, axis=-1, keepdims=True)
        beta: Array = population_beta(self.method, p, correct.shape[-1])
        return beta * correct


tpo.register("population", Population, listed=False)

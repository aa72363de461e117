"""Policy gradients with group-relative advantages and no ratio: Group PG, MaxRL, GPG, pass@k."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from tpo.arrays import Array
from tpo.groups import LOW, Groups, masked
from tpo.objectives.advantages import centred, over_mean, standardized
from tpo.objectives.aggregation import kept_contexts
from tpo.objectives.base import Traits, flag
from tpo.objectives.parts import LIKELIHOOD, Composed, Mean, Parts


@dataclass(frozen=True)
class GroupPG(Composed):
    r"""TPO without its target: standardised scores weigh the log-scores directly.

    .. math:: L = -\frac{1}{B}\sum_b\sum_i u_i\, \ell_i, \qquad
              \frac{\partial L}{\partial \ell_i} = -\frac{u_i}{B}

    Shapes: u [B, K], :math:`\ell` the sum of a candidate's token log-probs.

    Edge cases: while scores differ the gradient does not vanish, however far p has moved.

    Source: the ablation of arXiv 2604.06159, Fig. 9.

    Deviates: nothing.
    """

    traits: ClassVar[Traits] = Traits("policy gradient")

    def parts(self) -> Parts:
        return Parts(advantage=standardized, surrogate=LIKELIHOOD, weights=Mean("group"))


@dataclass(frozen=True)
class MaxRL(Composed):
    r"""Ascend the expected log of the pass rate: centred scores are divided by the mean, not by sigma.

    .. math:: A_i = \frac{R_i - \bar R}{\bar R + 10^{-6}}, \qquad
              L = -\frac{1}{BK}\sum A_i \sum_t \log\pi_{i,t}

    Shapes: scores [B, K], 0 or above.

    Edge cases: a group without a success has A = 0; one success among K has A = K - 1.

    Source: maximum-likelihood RL (MaxRL), arXiv 2602.02710.

    Deviates: no clipping; the paper's estimator is stated for binary scores.
    """

    traits: ClassVar[Traits] = Traits("policy gradient", epochs=False)

    def parts(self) -> Parts:
        return Parts(advantage=over_mean, surrogate=LIKELIHOOD, weights=Mean("candidate"))


@dataclass(frozen=True)
class GPG(Composed):
    r"""The plain policy gradient with a group baseline, scaled up for zero-variance groups.

    .. math:: L = -\frac{\alpha}{\sum|o|}\sum_i\sum_t (R_i - \bar R)\log\pi_{it}, \qquad
              \alpha = \frac{B}{B - B_0}

    Shapes: scores [B, K]; B_0 of the B groups have equal scores.

    Edge cases: without an informative group the loss is 0.

    Source: group policy gradient, arXiv 2504.02546.

    Deviates: nothing. `divide_by_sigma` divides by the group's sigma, the paper's other F_norm.
    """

    traits: ClassVar[Traits] = Traits("policy gradient", epochs=False)

    divide_by_sigma: bool = flag(False)

    def parts(self) -> Parts:
        return Parts(
            advantage=standardized if self.divide_by_sigma else centred,
            surrogate=LIKELIHOOD,
            weights=Mean("token", times=_over_informative),
        )


def _over_informative(groups: Groups) -> Array | float:
    """[] all contexts over those that are informative."""
    return kept_contexts(groups, drop=False)[1] / kept_contexts(groups, drop=True)[1]


@dataclass(frozen=True)
class PassK(Composed):
    r"""Ascend the expected best score of K samples: only the best has an advantage, its lead over the second.

    .. math:: A_i = \max_j R_j - \max_{j \ne i} R_j, \qquad
              L = -\frac{1}{B}\sum_b\sum_i A_i\sum_t\log\pi_{it}

    Shapes: scores [B, K]; k is the size of the group.

    Edge cases: if two candidates share the best score, every candidate has A = 0. So a group with two successes
    has no gradient: without either of them its best score is the same. `divide_by_sigma` divides A by the
    group's sigma.

    Source: Tang et al., arXiv 2503.19595; verl's `grpo_passk`, which divides by the sample's sigma by default.

    Deviates: nothing.
    """

    traits: ClassVar[Traits] = Traits("policy gradient", epochs=False)

    divide_by_sigma: bool = flag(False)

    def parts(self) -> Parts:
        return Parts(advantage=self._lead, surrogate=LIKELIHOOD, weights=Mean("group"))

    def _lead(self, groups: Groups) -> Array:
        """[B, K] the best score minus the second on the best, 0 elsewhere"""
        xp = groups.xp
        scores = standardized(groups) if self.divide_by_sigma else centred(groups)
        if scores.shape[-1] < 2:
            return xp.zeros_like(scores)
        ascending = xp.sort(masked(xp, scores, groups.counted, LOW))
        best, second = ascending[..., -1:], ascending[..., -2:-1]
        lead = xp.where(second > LOW, best - second, 0.0)
        return masked(xp, xp.where(scores == best, lead, 0.0), groups.counted)

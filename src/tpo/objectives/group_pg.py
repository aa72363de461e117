"""Policy gradients with group-relative advantages and no ratio: Group PG and MaxRL."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from tpo.objectives.advantages import over_mean, standardized
from tpo.objectives.base import Traits
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

"""REAL: the candidates of a group as positives and negatives of a classifier, whose logit is the log-ratio."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from tpo.arrays import Array, Namespace
from tpo.groups import LOW, Groups, masked
from tpo.objectives.advantages import standardized
from tpo.objectives.base import Objective, Traits, positive
from tpo.objectives.likelihood import LEVEL
from tpo.objectives.parts import prepare_policy
from tpo.objectives.ratio import MEAN, PreparedPolicy
from tpo.objectives.target_matching import count_contexts


@dataclass(frozen=True)
class REAL(Objective):
    r"""Raise the log-ratios of good candidates above 0 and push those of bad ones below, as a classifier would.

    .. math:: L = \frac1B\sum_b \Big[\log\Big(1 + \sum_{i \in +} e^{-x_i/\tau}\Big)
              + \log\Big(1 + \sum_{j \in -} e^{x_j/\tau}\Big)\Big], \qquad
              x_i = \frac{1}{|o_i|}\sum_t \log r_{it}

    Shapes: x [B, K]. Positives score above their group's mean, negatives below.

    Edge cases: the gradient of a group is at most 1/τ on each side, however many candidates it has. Those that
    are classified worst have most of it. At the snapshot each of n positives has :math:`1/(\tau(1 + n))`.

    Source: arXiv 2602.05630.

    Deviates: the paper's positives are the correct answers, so there a group of correct answers is raised; here
    a group of equal scores has a loss of 0.
    """

    traits: ClassVar[Traits] = Traits("ratio", whole_groups=True)
    prepared_type: ClassVar[type] = PreparedPolicy

    tau: float = positive(0.5)

    def _prepare(self, groups: Groups) -> Any:
        xp, u = groups.xp, standardized(groups)
        sign = xp.cast(u > LEVEL, u) - xp.cast(u < -LEVEL, u)
        return prepare_policy(groups, sign, 1.0 / count_contexts(u))

    def _side(
        self, xp: Namespace, log_probs: Array, prepared: PreparedPolicy, sign: float
    ) -> tuple[Array, Array]:
        """[B, K, 1] the logits -sign·x/τ of one side of a group, and [B, 1, 1] log(1 + Σ e^logit)."""
        log_probs = masked(xp, log_probs, prepared.tokens)
        x = MEAN.log(xp, log_probs, prepared.log_probs_old, prepared)
        logits = xp.where(prepared.advantages == sign, -sign * x / self.tau, LOW)
        top = xp.amax(logits, axis=1, keepdims=True)
        top = xp.stop_gradient(xp.where(top > 0, top, 0.0))
        total = xp.exp(-top) + xp.sum(xp.exp(logits - top), axis=1, keepdims=True)
        return logits, top + xp.log(total)

    def _loss(self, xp: Namespace, log_probs: Array, prepared: Any) -> Array:
        sides = [self._side(xp, log_probs, prepared, sign)[1] for sign in (1.0, -1.0)]
        return xp.sum(sides[0] + sides[1]) * prepared.weights

    def _coefficients(self, xp: Namespace, log_probs: Array, prepared: Any) -> Array:
        slope = 0.0
        for sign in (1.0, -1.0):
            logits, log_total = self._side(xp, log_probs, prepared, sign)
            slope = slope - sign / self.tau * xp.exp(logits - log_total)
        return MEAN.to_tokens(xp, prepared.weights * slope, log_probs, prepared)

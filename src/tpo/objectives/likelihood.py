"""Weighted log-likelihood (AWR, PMPO), and regression of log-ratios on score differences (REBEL)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

from tpo.arrays import Array, Namespace
from tpo.groups import Groups, masked
from tpo.objectives.advantages import centred, standardized
from tpo.objectives.aggregation import candidate_weights, sizes
from tpo.objectives.base import Objective, Traits, fraction, nonnegative, positive
from tpo.objectives.parts import KL, LIKELIHOOD, Composed, Mean, Parts, WithKL, prepare_policy
from tpo.objectives.ratio import SEQUENCE, PreparedPolicy

LEVEL = 1e-5
"""A z-score within ±LEVEL is rounding: the candidate has its group's mean score."""


@dataclass(frozen=True)
class AWR(Composed):
    r"""Advantage-weighted regression: likelihood weighted by exp(A/beta), capped.

    .. math:: L = -\frac{1}{BK}\sum \min(e^{A_i/\beta}, w_{max}) \sum_t \log\pi_{i,t}

    Shapes: A = R - mean within the group, [B, K]. β is `temperature`, w_max is `cap`.

    Edge cases: equal scores give every candidate weight 1. There is no target at which the gradient vanishes.

    Source: Peng et al., arXiv 1910.00177.

    Deviates: the group mean replaces the learned value function.
    """

    traits: ClassVar[Traits] = Traits("target")

    temperature: float = positive(0.05)
    cap: float = positive(20.0)

    def parts(self) -> Parts:
        return Parts(advantage=self._weight, surrogate=LIKELIHOOD, weights=Mean("candidate"))

    def _weight(self, groups: Groups) -> Array:
        scaled = centred(groups) / self.temperature
        return groups.xp.exp(groups.xp.clip(scaled, None, math.log(self.cap)))


@dataclass(frozen=True)
class PMPO(WithKL):
    r"""Preference-based MPO: accepted candidates up, rejected ones down, with a KL penalty.

    .. math:: L = \frac1B\sum_b
              [-\alpha\,\mathrm{mean}_{acc}\,\ell + (1-\alpha)\,\mathrm{mean}_{rej}\,\ell]
              + \beta\,\mathrm{KL}(\pi_{ref}\,\|\,\pi)

    Shapes: accepted candidates score above their group's mean, rejected ones below. The KL is k3 against
    `log_probs_ref` (the snapshot without one), summed over tokens and averaged over candidates.

    Edge cases: with equal scores only the KL remains.

    Source: Abdolmaleki et al., arXiv 2410.04166.

    Deviates: acceptance is relative to the group mean; the KL is estimated on the candidates.
    """

    traits: ClassVar[Traits] = Traits("target", reference=True, tokens=True, kl=True)

    alpha: float = fraction(0.5)
    beta: float = nonnegative(0.1)

    def parts(self) -> Parts:
        return Parts(
            advantage=self._push,
            surrogate=LIKELIHOOD,
            kl=KL(self.beta, self.kl_correction),
            weights=Mean("constant", length=1.0),
        )

    def _push(self, groups: Groups) -> Array:
        """[B, K] α/share of the accepted candidates, -(1 - α)/share of the rejected ones"""
        xp, u = groups.xp, standardized(groups)
        accepted, rejected = xp.cast(u > LEVEL, u), xp.cast(u < -LEVEL, u)
        push = self.alpha * _share(xp, accepted) - (1 - self.alpha) * _share(xp, rejected)
        return push * groups.sizes


def _share(xp: Namespace, members: Array) -> Array:
    """[B, K] 1/n on each of the n members of a group, 0 elsewhere."""
    n = xp.sum(members, axis=-1, keepdims=True)
    return members / (n + (n == 0))


@dataclass(frozen=True)
class REBEL(Objective):
    r"""Regress differences of log-ratios on differences of scores, over all pairs of a group.

    .. math:: L = \frac1B\sum_b \mathrm{mean}_{i<j}
              (\frac1\eta[\Delta_i - \Delta_j] - (R_i - R_j))^2, \qquad
              \Delta = \log\pi_\theta - \log\pi_{old}

    Shapes: Δ [B, K] sums token log-ratios. With e = Δ/η - R the mean over pairs is
    :math:`\frac{2}{K-1}\sum_i (e_i - \bar e)^2`, which is how it is computed.

    Edge cases: K = 1 has no pair and a loss of 0.

    Source: Gao et al., arXiv 2404.16767.

    Deviates: all pairs of the group instead of one pair per prompt (the same at K = 2).
    """

    traits: ClassVar[Traits] = Traits("target", whole_groups=True)
    prepared_type: ClassVar[type] = PreparedPolicy

    eta: float = positive(1.0)

    def _prepare(self, groups: Groups) -> Any:
        n = sizes(groups)
        weights = candidate_weights(groups, "group") * 2.0 / (n - 1.0 + (n == 1.0))
        weights = weights + groups.xp.zeros_like(groups.log_probs_old[..., :1])
        return prepare_policy(groups, groups.total, weights)

    def _residual(self, xp: Namespace, log_probs: Array, prepared: PreparedPolicy) -> Array:
        """[B, K, 1] e - mean(e) within the group."""
        log_probs = masked(xp, log_probs, prepared.tokens)
        delta = SEQUENCE.log(xp, log_probs, prepared.log_probs_old, prepared)
        present = xp.cast(prepared.weights > 0, delta)
        e = (delta / self.eta - prepared.advantages) * present
        n = xp.clip(xp.sum(present, axis=1, keepdims=True), 1.0, None)
        return (e - xp.sum(e, axis=1, keepdims=True) / n) * present

    def _loss(self, xp: Namespace, log_probs: Array, prepared: Any) -> Array:
        e = self._residual(xp, log_probs, prepared)
        return xp.sum(prepared.weights * e * e)

    def _coefficients(self, xp: Namespace, log_probs: Array, prepared: Any) -> Array:
        c = 2 / self.eta * prepared.weights * self._residual(xp, log_probs, prepared)
        return SEQUENCE.to_tokens(xp, c, log_probs, prepared)

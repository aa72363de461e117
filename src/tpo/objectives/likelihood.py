"""Weighted log-likelihood (AWR, PMPO, BOLT), and log-ratios regressed on score differences (REBEL, GVPO)."""

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
from tpo.objectives.target_matching import probabilities

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
class BOLT(Composed):
    r"""Likelihood of the reference's samples, weighted as in the optimum of KL-regularised RL.

    .. math:: L = -\frac{1}{B}\sum_b\sum_i w_i \sum_t\log\pi_{it}, \qquad
              w_i = \frac{e^{R_i/\beta}}{\sum_j e^{R_j/\beta}}

    Shapes: w [B, K]. β is `temperature`.

    Edge cases: the candidates should be samples of one reference policy. The fit then is π_ref·exp(R/β),
    whatever the number of epochs. A group of equal scores is raised as it is: there is no baseline.

    Source: Boltzmann-targeted fine-tuning, arXiv 2605.02469.

    Deviates: the normaliser is estimated from the group. β = 1 is ours.
    """

    traits: ClassVar[Traits] = Traits("target")

    temperature: float = positive(1.0)

    def parts(self) -> Parts:
        return Parts(advantage=self._weight, surrogate=LIKELIHOOD, weights=Mean("group"))

    def _weight(self, groups: Groups) -> Array:
        return probabilities(groups.xp, groups.total / self.temperature, groups.counted)


class CentredResidual(Objective):
    """A squared residual e - mean(e) within the group, e = log-ratio/eta - R, in closed form."""

    prepared_type: ClassVar[type] = PreparedPolicy
    factor: ClassVar[float]
    """times 1/(K - 1), the weight of a square"""

    @property
    def nats_per_score(self) -> float:
        """In subclasses: eta, the log-ratio that a score of 1 asks for."""
        raise NotImplementedError

    def _prepare(self, groups: Groups) -> Any:
        n = sizes(groups)
        weights = candidate_weights(groups, "group") * self.factor / (n - 1.0 + (n == 1.0))
        weights = weights + groups.xp.zeros_like(groups.log_probs_old[..., :1])
        return prepare_policy(groups, groups.total, weights)

    def _residual(self, xp: Namespace, log_probs: Array, prepared: PreparedPolicy) -> Array:
        """[B, K, 1] e - mean(e) within the group."""
        log_probs = masked(xp, log_probs, prepared.tokens)
        delta = SEQUENCE.log(xp, log_probs, prepared.log_probs_old, prepared)
        present = xp.cast(prepared.weights > 0, delta)
        e = (delta / self.nats_per_score - prepared.advantages) * present
        n = xp.clip(xp.sum(present, axis=1, keepdims=True), 1.0, None)
        return (e - xp.sum(e, axis=1, keepdims=True) / n) * present

    def _loss(self, xp: Namespace, log_probs: Array, prepared: Any) -> Array:
        e = self._residual(xp, log_probs, prepared)
        return xp.sum(prepared.weights * e * e)

    def _coefficients(self, xp: Namespace, log_probs: Array, prepared: Any) -> Array:
        c = 2 / self.nats_per_score * prepared.weights * self._residual(xp, log_probs, prepared)
        return SEQUENCE.to_tokens(xp, c, log_probs, prepared)


@dataclass(frozen=True)
class REBEL(CentredResidual):
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
    factor: ClassVar[float] = 2.0

    eta: float = positive(1.0)

    @property
    def nats_per_score(self) -> float:
        return self.eta


@dataclass(frozen=True)
class GVPO(CentredResidual):
    r"""Regress centred log-ratios on centred scores: the variance of what is left is the loss.

    .. math:: L = \frac1B\sum_b \frac{1}{2(K-1)}\sum_i
              \big[\beta(x_i - \bar x) - (R_i - \bar R)\big]^2, \qquad x_i = \log\frac{\pi(o_i)}{\pi_{old}(o_i)}

    Shapes: x [B, K] sums token log-ratios; bars are means over the group.

    Edge cases: it is REBEL over all pairs with :math:`\eta = 1/\beta`, times 1/4. K = 1 has a loss of 0.

    Source: group variance policy optimization, arXiv 2504.19599.

    Deviates: β = .1 is ours.
    """

    traits: ClassVar[Traits] = Traits("target", whole_groups=True)
    factor: ClassVar[float] = 0.5

    beta: float = positive(0.1)

    @property
    def nats_per_score(self) -> float:
        return 1 / self.beta

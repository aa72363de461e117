"""Softer alternatives to PPO's clipping: a sigmoid gate (SAPO), and weights on log pi (CISPO, VESPO)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from tpo.arrays import Array, Namespace
from tpo.objectives.advantages import standardized
from tpo.objectives.base import Traits, nonnegative, positive
from tpo.objectives.kl import LIMIT, clamped
from tpo.objectives.parts import KL, Mean, Parts, Surrogate, WithKL, from_behaviour
from tpo.objectives.surrogates import weighted_likelihood


@dataclass(frozen=True)
class SAPO(WithKL):
    r"""A smooth gate on the ratio, slightly narrower for negative advantages.

    .. math:: L = -\frac1B\sum_b\frac1K\sum_i\frac1{|o_i|}\sum_t f(r_{it})u_i, \qquad
              f(r) = \frac4\tau\sigma(\tau(r - 1)), \qquad
              \frac{d f}{d\log r} = 4\sigma(1-\sigma)\,r

    Shapes: u [B, K]; τ is `tau_positive` where u > 0 and `tau_negative` elsewhere.

    Edge cases: at r = 1 the weight is exactly 1, so the first step is GRPO's.

    Source: SAPO, arXiv 2511.20347.

    Deviates: the log-ratio is clamped to ±20.
    """

    traits: ClassVar[Traits] = Traits("ratio", tokens=True, kl=True)

    tau_positive: float = positive(1.0)
    tau_negative: float = positive(1.05)

    def parts(self) -> Parts:
        return Parts(
            advantage=standardized,
            ratio="token",
            surrogate=Surrogate(self._slope, self._gated),
            kl=KL(self.beta, self.kl_correction),
            weights=Mean("sequence"),
        )

    def _gate(self, xp: Namespace, x: Array, advantages: Array) -> tuple[Array, Array]:
        won = xp.cast(advantages > 0, x)
        tau = self.tau_negative + (self.tau_positive - self.tau_negative) * won
        return tau, xp.sigmoid(tau * (xp.exp(x) - 1))

    def _gated(self, xp: Namespace, x: Array, advantages: Array) -> Array:
        tau, gate = self._gate(xp, x, advantages)
        return -4 / tau * gate * advantages

    def _slope(self, xp: Namespace, x: Array, advantages: Array) -> Array:
        _, gate = self._gate(xp, x, advantages)
        return -4 * gate * (1 - gate) * xp.exp(x) * advantages


@dataclass(frozen=True)
class CISPO(WithKL):
    r"""REINFORCE weighted by a clipped ratio: a token with a clipped ratio still has a gradient.

    .. math:: L = -\frac{1}{\sum|o|}\sum_i\sum_t
              [\mathrm{sg}(\mathrm{clip}(r_{it}, floor, cap))\,u_i \log\pi_{it} - \beta\,k_3]

    Shapes: u [B, K]; `floor` and `cap` bound the ratio itself. The defaults 0 and 5 are TRL's
    choice. verl's method of the same name clips to 1 ± .2: `floor=0.8, cap=1.2`.

    Edge cases: at r = 1 it is REINFORCE on u.

    Source: MiniMax-M1, arXiv 2506.13585.

    Deviates: the paper does not state its cap; the default is TRL's. The paper has no KL (beta = 0).
    """

    traits: ClassVar[Traits] = Traits("ratio", tokens=True, kl=True)

    floor: float = nonnegative(0.0)
    cap: float = positive(5.0)

    def parts(self) -> Parts:
        return Parts(
            advantage=standardized,
            ratio="token",
            surrogate=weighted_likelihood(self._capped),
            kl=KL(self.beta, self.kl_correction),
            weights=Mean("token"),
        )

    def _capped(self, xp: Namespace, x: Array, advantages: Array) -> Array:
        return xp.clip(xp.exp(clamped(xp, x)), self.floor, self.cap)


@dataclass(frozen=True)
class VESPO(WithKL):
    r"""REINFORCE weighted by a smooth bump of the whole sequence's ratio, which is 1 at ratio 1.

    .. math:: L = -\frac{1}{\sum|o|}\sum_i\sum_t \mathrm{sg}(\phi(w_i))\, u_i \log\pi_{it}, \qquad
              \phi(w) = w^k e^{\lambda(1 - w)}, \qquad w_i = \prod_t \frac{\pi_{it}}{\mu_{it}}

    Shapes: u [B, K]; (k, λ) is (2, 3) where u ≥ 0 and (3, 2) elsewhere. μ is `log_probs_rollout`, or the
    snapshot without it.

    Edge cases: a sequence far from μ, in either direction, has hardly any weight. log w is clamped to
    [log 1e-8, 20], as in TRL.

    Source: arXiv 2602.10693.

    Deviates: the mean over the batch's tokens is TRL's. The paper has no KL (beta = 0).
    """

    traits: ClassVar[Traits] = Traits("ratio", tokens=True, behaviour=True, kl=True)

    k_positive: float = positive(2.0)
    lambda_positive: float = positive(3.0)
    k_negative: float = positive(3.0)
    lambda_negative: float = positive(2.0)

    def parts(self) -> Parts:
        return Parts(
            snapshot=from_behaviour,
            advantage=standardized,
            ratio="sequence",
            surrogate=weighted_likelihood(self._bump),
            kl=KL(self.beta, self.kl_correction),
            weights=Mean("token"),
        )

    def _bump(self, xp: Namespace, x: Array, advantages: Array) -> Array:
        x = xp.clip(x, math.log(1e-8), LIMIT)
        raised = xp.cast(advantages >= 0, x)
        k = self.k_negative + (self.k_positive - self.k_negative) * raised
        rate = self.lambda_negative + (self.lambda_positive - self.lambda_negative) * raised
        return xp.exp(k * x + rate * (1 - xp.exp(x)))

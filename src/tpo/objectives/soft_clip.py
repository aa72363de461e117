"""Softer alternatives to PPO's clipping: a sigmoid gate (SAPO), and weights on log pi (CISPO, VESPO)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

from tpo.arrays import Array, Namespace
from tpo.groups import Groups
from tpo.objectives.advantages import advantage
from tpo.objectives.aggregation import token_weights
from tpo.objectives.base import Traits, nonnegative, positive
from tpo.objectives.kl import LIMIT
from tpo.objectives.ratio import RatioObjective, log_ratio, prepare_ratio
from tpo.objectives.trust_masks import from_behaviour
from tpo.objectives.weighted import PenalisedObjective, PreparedPolicy, prepare_policy


@dataclass(frozen=True)
class SAPO(RatioObjective):
    r"""A smooth gate on the ratio, slightly narrower for negative advantages.

    .. math:: L = -\frac1B\sum_b\frac1K\sum_i\frac1{|o_i|}\sum_t f(r_{it})u_i, \qquad
              f(r) = \frac4\tau\sigma(\tau(r - 1)), \qquad
              \frac{d f}{d\log r} = 4\sigma(1-\sigma)\,r

    Shapes: u [B, K]; τ is `tau_positive` where u > 0 and `tau_negative` elsewhere.

    Edge cases: at r = 1 the weight is exactly 1, so the first step is GRPO's.

    Source: SAPO, arXiv 2511.20347.

    Deviates: the log-ratio is clamped to ±20.
    """

    traits: ClassVar[Traits] = Traits("ratio")

    tau_positive: float = positive(1.0)
    tau_negative: float = positive(1.05)

    def _prepare(self, groups: Groups) -> Any:
        return prepare_ratio(groups, "z", "token", "sequence")

    def _gate(self, xp: Namespace, x: Array, advantages: Array) -> tuple[Array, Array]:
        won = xp.cast(advantages > 0, x)
        tau = self.tau_negative + (self.tau_positive - self.tau_negative) * won
        return tau, xp.sigmoid(tau * (xp.exp(x) - 1))

    def surrogate(self, xp: Namespace, x: Array, advantages: Array) -> Array:
        tau, gate = self._gate(xp, x, advantages)
        return -4 / tau * gate * advantages

    def surrogate_slope(self, xp: Namespace, x: Array, advantages: Array) -> Array:
        _, gate = self._gate(xp, x, advantages)
        return -4 * gate * (1 - gate) * xp.exp(x) * advantages


@dataclass(frozen=True)
class CISPO(PenalisedObjective):
    r"""REINFORCE weighted by a clipped ratio: a token with a clipped ratio still has a gradient.

    .. math:: L = -\frac{1}{\sum|o|}\sum_i\sum_t
              [\mathrm{sg}(\mathrm{clip}(r_{it}, floor, cap))\,u_i \log\pi_{it} - \beta\,k_3]

    Shapes: u [B, K]; `floor` and `cap` bound the ratio itself. The defaults 0 and 5 are TRL's
    choice. verl's method of the same name clips to 1 ± .2: `floor=0.8, cap=1.2`.

    Edge cases: at r = 1 it is REINFORCE on u.

    Source: MiniMax-M1, arXiv 2506.13585.

    Deviates: the paper does not state its cap; the default is TRL's. The paper has no KL (beta = 0).
    """

    traits: ClassVar[Traits] = Traits("ratio")

    floor: float = nonnegative(0.0)
    cap: float = positive(5.0)

    def _prepare(self, groups: Groups) -> Any:
        return prepare_policy(groups, advantage(groups, "z"), token_weights(groups, "token"))

    def ratios(self, xp: Namespace, log_probs: Array, prepared: PreparedPolicy) -> Array:
        """[B, K, T] pi/pi_old, not yet clipped."""
        x = log_ratio(xp, log_probs, prepared.log_probs_old, prepared, "token")
        return xp.exp(xp.clip(x, -LIMIT, LIMIT))

    def credit(self, xp: Namespace, log_probs: Array, prepared: PreparedPolicy) -> Array:
        r = xp.clip(self.ratios(xp, log_probs, prepared), self.floor, self.cap)
        return prepared.weights * r * prepared.advantages


@dataclass(frozen=True)
class VESPO(PenalisedObjective):
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

    traits: ClassVar[Traits] = Traits("ratio")

    k_positive: float = positive(2.0)
    lambda_positive: float = positive(3.0)
    k_negative: float = positive(3.0)
    lambda_negative: float = positive(2.0)

    def _prepare(self, groups: Groups) -> Any:
        groups = from_behaviour(groups)
        return prepare_policy(groups, advantage(groups, "z"), token_weights(groups, "token"))

    def credit(self, xp: Namespace, log_probs: Array, prepared: PreparedPolicy) -> Array:
        x = log_ratio(xp, log_probs, prepared.log_probs_old, prepared, "sequence")
        x = xp.clip(x, math.log(1e-8), LIMIT)
        raised = xp.cast(prepared.advantages >= 0, x)
        k = self.k_negative + (self.k_positive - self.k_negative) * raised
        rate = self.lambda_negative + (self.lambda_positive - self.lambda_negative) * raised
        return super().credit(xp, log_probs, prepared) * xp.exp(k * x + rate * (1 - xp.exp(x)))

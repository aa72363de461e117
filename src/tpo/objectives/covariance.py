"""Against entropy collapse: the few tokens whose log-prob and advantage covary most (Clip-Cov, KL-Cov)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from tpo.arrays import Array, Namespace
from tpo.groups import masked
from tpo.objectives.advantages import standardized
from tpo.objectives.base import Traits, fraction, inside_unit, nonnegative
from tpo.objectives.parts import KL, Composed, Mean, Parts, WithKL, clip
from tpo.objectives.ratio import TOKEN, PreparedPolicy
from tpo.objectives.selection import batch_mean, largest_share
from tpo.objectives.surrogates import IMPORTANCE, clipped


def covariances(xp: Namespace, log_probs: Array, prepared: PreparedPolicy) -> Array:
    """[B, K, T] (A - mean A)·(log pi - mean log pi), means over the batch's tokens."""
    advantages = masked(xp, prepared.advantages + xp.zeros_like(log_probs), prepared.tokens)
    mean_a, mean_l = (batch_mean(xp, x, prepared.tokens) for x in (advantages, log_probs))
    return (advantages - mean_a) * (log_probs - mean_l)


def _present(xp: Namespace, x: Array, tokens: Array | None) -> Array:
    """[B, K, T] bool: the tokens that count."""
    return xp.ones_like(x) > 0 if tokens is None else tokens


@dataclass(frozen=True)
class ClipCov(WithKL):
    r"""PPO's clipping, and no gradient for a few tokens whose log-prob covaries with the advantage.

    .. math:: L = -\frac{1}{\sum|o|}\sum_{(i,t) \notin I}
              \min(r_{it} u_i, \mathrm{clip}(r_{it}, 1\pm\epsilon)u_i), \qquad
              c_{it} = (u_i - \bar u)(\log\pi_{it} - \overline{\log\pi})

    Shapes: u [B, K]; means are over the batch's tokens. I is `share` of the tokens, at least one, among those
    that are not clipped and have c between `low` and `high`.

    Edge cases: without a token in that range it is PPO's clipping with a token mean.

    Source: Cui et al., arXiv 2505.22617.

    Deviates: of the tokens in the range the paper drops a random choice, ours drops those with the largest c.
    So equal inputs give equal outputs.
    """

    traits: ClassVar[Traits] = Traits(
        "ratio", tokens=True, whole_groups=True, whole_batch=True, kl=True
    )

    clip: float = inside_unit(0.2)
    share: float = fraction(2e-4)
    low: float = nonnegative(1.0)
    high: float = nonnegative(5.0)

    def parts(self) -> Parts:
        return Parts(
            advantage=standardized,
            gate=self._kept,
            ratio="token",
            surrogate=clip(self.clip, self.clip),
            kl=KL(self.beta, self.kl_correction),
            weights=Mean("token"),
        )

    def _kept(self, xp: Namespace, log_probs: Array, prepared: PreparedPolicy) -> Array:
        c = covariances(xp, log_probs, prepared)
        r = xp.exp(xp.clip(log_probs - prepared.log_probs_old, -1.0, 1.0))
        below, above = clipped(r, prepared.advantages, self.clip, self.clip)
        within = (c > self.low) & (c < self.high) & ~(below | above)
        eligible = within & _present(xp, c, prepared.tokens)
        return ~largest_share(xp, c, self.share, eligible, prepared.tokens)


@dataclass(frozen=True)
class KLCov(Composed):
    r"""The ratio without clipping, and a KL penalty on the few tokens that lower the entropy most.

    .. math:: L = \frac{1}{\sum|o|}\Big[-\sum_i\sum_t r_{it} u_i
              + \lambda\sum_{(i,t) \in I} |\log r_{it}|\Big], \qquad
              c_{it} = (u_i - \bar u)(\log\pi_{it} - \overline{\log\pi})

    Shapes: u [B, K]; means are over the batch's tokens. I is `share` of the tokens, at least one, with the
    largest c. λ is `penalty`.

    Edge cases: at r = 1 the penalty has no gradient.

    Source: Cui et al., arXiv 2505.22617.

    Deviates: nothing. Tokens with equal c are penalised together.
    """

    traits: ClassVar[Traits] = Traits("ratio", tokens=True, whole_groups=True, whole_batch=True)

    share: float = fraction(2e-4)
    penalty: float = nonnegative(1.0)

    def parts(self) -> Parts:
        return Parts(
            advantage=standardized, ratio="token", surrogate=IMPORTANCE, weights=Mean("token")
        )

    def _penalised(
        self, xp: Namespace, log_probs: Array, prepared: PreparedPolicy
    ) -> tuple[Array, Array]:
        """[B, K, T] log r, and the slope of its penalty: weight·sign(log r), 0 at r = 1."""
        log_probs = masked(xp, log_probs, prepared.tokens)
        x = TOKEN.log(xp, log_probs, prepared.log_probs_old, prepared)
        frozen, sign = xp.stop_gradient(log_probs), xp.cast(x > 0, x) - xp.cast(x < 0, x)
        c = covariances(xp, frozen, prepared)
        chosen = largest_share(xp, c, self.share, _present(xp, c, prepared.tokens), prepared.tokens)
        return x, self.penalty * prepared.weights * sign * xp.cast(chosen, x)

    def _loss(self, xp: Namespace, log_probs: Array, prepared: Any) -> Array:
        x, slope = self._penalised(xp, log_probs, prepared)
        return super()._loss(xp, log_probs, prepared) + xp.sum(slope * x)

    def _coefficients(self, xp: Namespace, log_probs: Array, prepared: Any) -> Array:
        _, slope = self._penalised(xp, log_probs, prepared)
        return super()._coefficients(xp, log_probs, prepared) + slope

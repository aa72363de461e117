"""One ratio per sequence, the geometric mean over its tokens: GSPO, LUSPO, and GMPO with clipped tokens."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from tpo.arrays import Array, Namespace
from tpo.groups import Groups, masked
from tpo.objectives.advantages import advantage
from tpo.objectives.aggregation import token_weights
from tpo.objectives.base import Objective, Traits, inside_unit, nonnegative, positive
from tpo.objectives.kl import clamped, zero_if_clamped
from tpo.objectives.ratio import ClippedObjective, log_ratio, prepare_ratio, to_tokens
from tpo.objectives.weighted import PreparedPolicy, prepare_policy


@dataclass(frozen=True)
class GSPO(ClippedObjective):
    r"""Clip one length-normalised ratio per sequence.

    .. math:: s_i = (\frac{\pi(o_i)}{\pi_{old}(o_i)})^{1/|o_i|}, \qquad
              L = -\frac1B\sum_b\frac1K\sum_i
              \min(s_i u_i, \mathrm{clip}(s_i, 1-\epsilon_{low}, 1+\epsilon_{high})u_i)

    Shapes: s and u [B, K].

    Edge cases: the published clip range is three orders of magnitude narrower than PPO's, since s is a mean.

    Source: Zheng et al., arXiv 2507.18071.

    Deviates: the paper has no KL; ours is per token and averaged over the sequence, as in TRL.
    """

    traits: ClassVar[Traits] = Traits("ratio")
    kl_per_token: ClassVar[bool] = True

    clip_low: float = inside_unit(3e-4)
    clip_high: float = nonnegative(4e-4)

    def ratio_of(self) -> str:
        return "mean"

    def _prepare(self, groups: Groups) -> Any:
        return prepare_ratio(groups, "z", "mean", "sequence")

    def clip_range(self) -> tuple[float, float]:
        return self.clip_low, self.clip_high


@dataclass(frozen=True)
class LUSPO(GSPO):
    r"""GSPO with each sequence's term times its length, so that a long sequence moves as much as a short one.

    .. math:: L = -\frac1B\sum_b\frac1K\sum_i |o_i|
              \min(s_i u_i, \mathrm{clip}(s_i, 1-\epsilon_{low}, 1+\epsilon_{high})u_i)

    Shapes: s and u [B, K]; s is GSPO's ratio.

    Edge cases: at the snapshot the coefficient of a token is u/K, whatever the length: GSPO's is u/(K·length).

    Source: arXiv 2602.05261; clip range of its section 5.1.

    Deviates: the paper has no KL; ours is per token and summed over the sequence, as in TRL.
    """

    clip_low: float = inside_unit(2e-3)
    clip_high: float = nonnegative(2.5e-3)

    def _prepare(self, groups: Groups) -> Any:
        found = prepare_ratio(groups, "z", "mean", "sequence")
        return found._replace(weights=found.weights * groups.lengths)


@dataclass(frozen=True)
class GSPOToken(GSPO):
    r"""GSPO with its ratio on every token, which allows a different advantage for each token.

    .. math:: s_{it} = \mathrm{sg}(s_i)\,\frac{\pi_{it}}{\mathrm{sg}(\pi_{it})}, \qquad
              L = -\frac1B\sum_b\frac1K\sum_i\frac{1}{|o_i|}\sum_t
              \min(s_{it} A_{it}, \mathrm{clip}(s_{it}) A_{it})

    Shapes: A is u [B, K], repeated on each token.

    Edge cases: with one advantage per sequence the value and the gradient are GSPO's.

    Source: Zheng et al., arXiv 2507.18071, section 4.3.

    Deviates: nothing.
    """

    def _prepare(self, groups: Groups) -> Any:
        return prepare_policy(groups, advantage(groups, "z"), token_weights(groups, "sequence"))

    def ratio_of(self) -> str:
        return "token"

    def log_ratios(
        self, xp: Namespace, log_probs: Array, snapshot: Array, prepared: PreparedPolicy
    ) -> Array:
        detached = xp.stop_gradient(masked(xp, log_probs, prepared.tokens))
        x = log_ratio(xp, detached, snapshot, prepared, "mean")
        return x + (masked(xp, log_probs, prepared.tokens) - detached)


@dataclass(frozen=True)
class GMPO(Objective):
    r"""The geometric mean of a sequence's ratios, each clipped on its own in log space.

    .. math:: L = -\frac1B\sum_b\frac1K\sum_i u_i \exp\Big(\frac{1}{|o_i|}\sum_t x_{it}\Big), \qquad
              x_{it} = \begin{cases} \min(\log r_{it}, \epsilon_{high}) & u_i > 0 \\
              \max(\log r_{it}, -\epsilon_{low}) & u_i < 0 \end{cases}

    Shapes: u [B, K]; r is a token's ratio.

    Edge cases: a clipped token has no gradient, the others of its sequence keep theirs. GSPO clips all or none.

    Source: Zhao et al., arXiv 2507.20673.

    Deviates: the mean of log-ratios is clamped to ±20.
    """

    traits: ClassVar[Traits] = Traits("ratio")

    clip_low: float = positive(0.4)
    clip_high: float = positive(0.4)

    def _prepare(self, groups: Groups) -> Any:
        return prepare_ratio(groups, "z", "mean", "sequence")

    def _clipped(self, x: Array, advantages: Array) -> Array:
        """[B, K, T] bool: the token's log-ratio is at its bound."""
        above = (x > self.clip_high) & (advantages > 0)
        return above | ((x < -self.clip_low) & (advantages < 0))

    def _tokens(
        self, xp: Namespace, log_probs: Array, prepared: PreparedPolicy
    ) -> tuple[Array, Array]:
        """[B, K, T] where a token is clipped, and [B, K, 1] the mean of the log-ratios."""
        x = log_ratio(xp, log_probs, prepared.log_probs_old, prepared, "token")
        clipped = self._clipped(x, prepared.advantages)
        x = xp.where(clipped, xp.clip(x, -self.clip_low, self.clip_high), x)
        return clipped, xp.sum(x, axis=-1, keepdims=True) / prepared.lengths

    def _loss(self, xp: Namespace, log_probs: Array, prepared: Any) -> Array:
        _, mean = self._tokens(xp, log_probs, prepared)
        return -xp.sum(prepared.weights * prepared.advantages * xp.exp(clamped(xp, mean)))

    def _coefficients(self, xp: Namespace, log_probs: Array, prepared: Any) -> Array:
        clipped, mean = self._tokens(xp, log_probs, prepared)
        slope = -prepared.weights * prepared.advantages * xp.exp(clamped(xp, mean))
        slope = zero_if_clamped(xp, mean, slope)
        return xp.where(clipped, 0.0, to_tokens(xp, slope, prepared, "mean"))

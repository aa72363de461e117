"""One ratio per sequence, the geometric mean over its tokens: GSPO, LUSPO, and GMPO with clipped tokens."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from tpo.arrays import Array, Namespace
from tpo.objectives.advantages import standardized
from tpo.objectives.base import Traits, inside_unit, nonnegative, positive
from tpo.objectives.parts import KL, Composed, Mean, Parts, WithKL, clip
from tpo.objectives.ratio import MEAN, MeanRatio, PreparedPolicy, Ratio
from tpo.objectives.surrogates import IMPORTANCE


@dataclass(frozen=True)
class GSPO(WithKL):
    r"""Clip one length-normalised ratio per sequence.

    .. math:: s_i = (\frac{\pi(o_i)}{\pi_{old}(o_i)})^{1/|o_i|}, \qquad
              L = -\frac1B\sum_b\frac1K\sum_i
              \min(s_i u_i, \mathrm{clip}(s_i, 1-\epsilon_{low}, 1+\epsilon_{high})u_i)

    Shapes: s and u [B, K].

    Edge cases: the published clip range is three orders of magnitude narrower than PPO's, since s is a mean.

    Source: Zheng et al., arXiv 2507.18071.

    Deviates: the paper has no KL; ours is per token and averaged over the sequence, as in TRL.
    """

    traits: ClassVar[Traits] = Traits("ratio", tokens=True, kl=True)

    clip_low: float = inside_unit(3e-4)
    clip_high: float = nonnegative(4e-4)

    def parts(self) -> Parts:
        return Parts(
            advantage=standardized,
            ratio="mean",
            surrogate=clip(self.clip_low, self.clip_high),
            kl=KL(self.beta, self.kl_correction, per_token=True),
            weights=Mean("sequence"),
        )


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

    def parts(self) -> Parts:
        lengths = Mean("sequence", times=lambda groups: groups.lengths)
        return super().parts()._replace(weights=lengths)


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

    def parts(self) -> Parts:
        return super().parts()._replace(ratio=MeanOnTokens())


class MeanOnTokens(Ratio):
    """The geometric mean over a sequence's tokens on each of them, [B, K, T]; each has its own gradient."""

    def log(self, xp: Namespace, log_probs: Array, other: Array, prepared: PreparedPolicy) -> Array:
        detached = xp.stop_gradient(log_probs)
        return MEAN.log(xp, detached, other, prepared) + (log_probs - detached)


@dataclass(frozen=True)
class GMPO(Composed):
    r"""The geometric mean of a sequence's ratios, each clipped on its own in log space.

    .. math:: L = -\frac1B\sum_b\frac1K\sum_i u_i \exp\Big(\frac{1}{|o_i|}\sum_t x_{it}\Big), \qquad
              x_{it} = \begin{cases} \min(\log r_{it}, \epsilon_{high}) & u_i > 0 \\
              \max(\log r_{it}, -\epsilon_{low}) & u_i < 0 \end{cases}

    Shapes: u [B, K]; r is a token's ratio.

    Edge cases: a clipped token has no gradient, the others of its sequence keep theirs. GSPO clips all or none.

    Source: Zhao et al., arXiv 2507.20673.

    Deviates: the mean of log-ratios is clamped to ±20.
    """

    traits: ClassVar[Traits] = Traits("ratio", tokens=True)

    clip_low: float = positive(0.4)
    clip_high: float = positive(0.4)

    def parts(self) -> Parts:
        return Parts(
            advantage=standardized,
            ratio=ClippedMean(self.clip_low, self.clip_high),
            surrogate=IMPORTANCE,
            weights=Mean("sequence"),
        )


@dataclass(frozen=True)
class ClippedMean(MeanRatio):
    """The geometric mean of a sequence's ratios, [B, K, 1]. Each is clipped, and then has no gradient."""

    low: float
    high: float

    def log(self, xp: Namespace, log_probs: Array, other: Array, prepared: PreparedPolicy) -> Array:
        x = log_probs - other
        x = xp.where(self._clipped(x, prepared), xp.clip(x, -self.low, self.high), x)
        return xp.sum(x, axis=-1, keepdims=True) / prepared.lengths

    def to_tokens(
        self, xp: Namespace, slope: Array, log_probs: Array, prepared: PreparedPolicy
    ) -> Array:
        clipped = self._clipped(log_probs - prepared.log_probs_old, prepared)
        return xp.where(clipped, 0.0, super().to_tokens(xp, slope, log_probs, prepared))

    def _clipped(self, x: Array, prepared: PreparedPolicy) -> Array:
        """[B, K, T] bool: the token's log-ratio is at its bound."""
        above = (x > self.high) & (prepared.advantages > 0)
        return above | ((x < -self.low) & (prepared.advantages < 0))

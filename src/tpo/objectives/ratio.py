"""The ratio family: a surrogate of r = pi/pi_old, per token or per sequence, plus a KL penalty."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from tpo.arrays import Array, Namespace
from tpo.groups import Groups, masked
from tpo.objectives.advantages import PER_TOKEN, advantage
from tpo.objectives.aggregation import candidate_weights, token_weights
from tpo.objectives.base import Objective, flag, nonnegative
from tpo.objectives.kl import (
    clamped,
    corrected,
    corrected_slope,
    k3_of,
    k3_slope,
    zero_if_clamped,
)
from tpo.objectives.weighted import PreparedPolicy, prepare_policy

GRANULARITIES = ("token", "sequence", "mean")
"""One ratio per token, per sequence (the product over its tokens), or their geometric mean (GSPO)."""


def log_ratio(
    xp: Namespace, log_probs: Array, snapshot: Array, prepared: PreparedPolicy, granularity: str
) -> Array:
    """[B, K, T] or [B, K, 1] log(pi/snapshot) at that granularity, not yet clamped."""
    x = masked(xp, log_probs, prepared.tokens) - snapshot
    if granularity == "token":
        return x
    x = xp.sum(x, axis=-1, keepdims=True)
    return x / prepared.lengths if granularity == "mean" else x


def to_tokens(xp: Namespace, slope: Array, prepared: PreparedPolicy, granularity: str) -> Array:
    """[B, K, T] the chain rule: the derivative by log-ratio to that by token log-prob."""
    slope = slope / prepared.lengths if granularity == "mean" else slope
    return masked(xp, slope + xp.zeros_like(prepared.log_probs_old), prepared.tokens)


@dataclass(frozen=True)
class RatioObjective(Objective):
    """L = Σ weights·[surrogate(log r, A) + beta·k3]; subclasses define the surrogate and its derivative.

    With `kl_correction` the penalty is r·k3 (`kl.corrected`).
    """

    kl_per_token: ClassVar[bool] = False
    """Whether the KL is per token even if the ratio is per sequence."""

    beta: float = nonnegative(0.0)
    kl_correction: bool = flag(False)

    def surrogate(self, xp: Namespace, x: Array, advantages: Array) -> Array:
        """The loss term as a function of the log-ratio x."""
        raise NotImplementedError

    def surrogate_slope(self, xp: Namespace, x: Array, advantages: Array) -> Array:
        """d surrogate / dx."""
        raise NotImplementedError

    def ratio_of(self) -> str:
        """The granularity of the ratio."""
        return "token"

    def log_ratios(
        self, xp: Namespace, log_probs: Array, snapshot: Array, prepared: PreparedPolicy
    ) -> Array:
        """[B, K, T] or [B, K, 1] log(pi/snapshot), not yet clamped."""
        return log_ratio(xp, log_probs, snapshot, prepared, self.ratio_of())

    def reference_ratios(self, xp: Namespace, log_probs: Array, prepared: PreparedPolicy) -> Array:
        """[B, K, T] or [B, K, 1] log(pi/ref), not yet clamped."""
        if self.kl_per_token:
            return log_ratio(xp, log_probs, prepared.reference, prepared, "token")
        return self.log_ratios(xp, log_probs, prepared.reference, prepared)

    def penalties(self, xp: Namespace, x: Array, d: Array, prepared: PreparedPolicy) -> Array:
        """The penalty, shaped like x: averaged over tokens if the penalty is per token and the ratio is not."""
        found = self.penalty(xp, d)
        if d.shape == x.shape:
            return found
        return xp.sum(masked(xp, found, prepared.tokens), axis=-1, keepdims=True) / prepared.lengths

    def penalty(self, xp: Namespace, d: Array) -> Array:
        """The KL estimator that beta multiplies, d = log(pi/ref)."""
        return k3_of(xp, d)

    def penalty_slope(self, xp: Namespace, d: Array) -> Array:
        """d penalty / d(log-ratio d)."""
        return k3_slope(xp, d)

    def corrected_penalty(self, xp: Namespace, x: Array, kl: Array) -> Array:
        """The penalty of `kl_correction`; its gradient is that of KL(pi‖ref), whatever the penalty's own."""
        return corrected(xp, x, kl)

    def corrected_penalty_slope(self, xp: Namespace, x: Array, kl: Array, slope: Array) -> Array:
        """d corrected penalty / dx, of an unclamped x; `slope` is the penalty's own."""
        return corrected_slope(xp, x, kl, slope)

    def _loss(self, xp: Namespace, log_probs: Array, prepared: Any) -> Array:
        x = clamped(xp, self.log_ratios(xp, log_probs, prepared.log_probs_old, prepared))
        terms = self.surrogate(xp, x, prepared.advantages)
        if self.beta:
            own = prepared.reference is prepared.log_probs_old and not self.kl_per_token
            d = x if own else clamped(xp, self.reference_ratios(xp, log_probs, prepared))
            kl = self.penalties(xp, x, d, prepared)
            terms = terms + self.beta * (
                self.corrected_penalty(xp, x, kl) if self.kl_correction else kl
            )
        return xp.sum(prepared.weights * terms)

    def _coefficients(self, xp: Namespace, log_probs: Array, prepared: Any) -> Array:
        x = self.log_ratios(xp, log_probs, prepared.log_probs_old, prepared)
        slope = zero_if_clamped(
            xp, x, self.surrogate_slope(xp, clamped(xp, x), prepared.advantages)
        )
        if self.beta:
            d = self.reference_ratios(xp, log_probs, prepared)
            kl_slope = zero_if_clamped(xp, d, self.penalty_slope(xp, clamped(xp, d)))
            if self.kl_correction:
                kl = self.penalties(xp, x, clamped(xp, d), prepared)
                kl_slope = self.corrected_penalty_slope(xp, x, kl, kl_slope)
            slope = slope + self.beta * kl_slope
        return to_tokens(xp, prepared.weights * slope, prepared, self.ratio_of())


@dataclass(frozen=True)
class ClippedObjective(RatioObjective):
    """PPO's pessimistic surrogate, -min(r·A, clip(r)·A); subclasses define the clip range."""

    def clip_range(self) -> tuple[float, float]:
        """(low, high): r is clipped to [1 - low, 1 + high]."""
        raise NotImplementedError

    def surrogate(self, xp: Namespace, x: Array, advantages: Array) -> Array:
        low, high = self.clip_range()
        r = xp.exp(x)
        return -xp.minimum(r * advantages, xp.clip(r, 1 - low, 1 + high) * advantages)

    def surrogate_slope(self, xp: Namespace, x: Array, advantages: Array) -> Array:
        r = xp.exp(x)
        low, high = self.clipped(r, advantages)
        return xp.where(high | low, 0.0, -r * advantages)

    def clipped(self, r: Array, advantages: Array) -> tuple[Array, Array]:
        """Where a ratio is clipped and has no gradient: at the lower bound, and at the upper."""
        low, high = self.clip_range()
        return (advantages < 0) & (r < 1 - low), (advantages > 0) & (r > 1 + high)


def prepare_ratio(
    groups: Groups, name: str, granularity: str, over: str, drop: bool = False
) -> PreparedPolicy:
    """`prepare_policy` with the advantage of that name, and weights per token or per candidate."""
    if granularity == "token":
        return prepare_policy(groups, advantage(groups, name), token_weights(groups, over, drop))
    if name in PER_TOKEN:
        raise ValueError(
            f"advantage {name!r} is one number per token, and granularity {granularity!r} has one ratio "
            "per sequence: choose granularity='token' or an advantage per candidate such as 'z'"
        )
    weights = candidate_weights(groups, over, drop)
    return prepare_policy(groups, advantage(groups, name), weights)

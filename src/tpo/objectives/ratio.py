"""The ratio family: a function of r = pi/pi_old, by token or by sequence, plus a KL penalty."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from tpo.arrays import Array, Namespace
from tpo.groups import Groups, masked
from tpo.objectives.advantages import PER_TOKEN, advantage
from tpo.objectives.aggregation import candidate_weights, token_weights
from tpo.objectives.base import Objective, flag, nonnegative
from tpo.objectives.kl import (
    bregman,
    bregman_slope,
    clamped,
    corrected,
    corrected_slope,
    inside,
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
    """[B, K, T] the chain rule from a slope by log-ratio to a slope by token log-prob."""
    slope = slope / prepared.lengths if granularity == "mean" else slope
    return masked(xp, slope + xp.zeros_like(prepared.log_probs_old), prepared.tokens)


@dataclass(frozen=True)
class RatioObjective(Objective):
    """L = Σ weights·[surrogate(log r, A) + beta·k3]; subclasses state the surrogate and its derivative.

    With `kl_correction` the penalty is r·k3 (`kl.corrected`).
    """

    kl_per_token: ClassVar[bool] = False
    """Whether the KL is per token where the ratio is not."""

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
        """The penalty beside each ratio, shaped like x: the mean over tokens beside one of a sequence."""
        found = self.penalty(xp, d)
        if d.shape == x.shape:
            return found
        return xp.sum(masked(xp, found, prepared.tokens), axis=-1, keepdims=True) / prepared.lengths

    def penalty(self, xp: Namespace, d: Array) -> Array:
        """The KL estimator that beta multiplies, d = log(pi/ref)."""
        return bregman(xp, d)

    def penalty_slope(self, xp: Namespace, d: Array) -> Array:
        """d penalty / dd."""
        return bregman_slope(xp, d)

    def _loss(self, xp: Namespace, log_probs: Array, prepared: Any) -> Array:
        x = clamped(xp, self.log_ratios(xp, log_probs, prepared.log_probs_old, prepared))
        terms = self.surrogate(xp, x, prepared.advantages)
        if self.beta:
            own = prepared.reference is prepared.log_probs_old and not self.kl_per_token
            d = x if own else clamped(xp, self.reference_ratios(xp, log_probs, prepared))
            kl = self.penalties(xp, x, d, prepared)
            terms = terms + self.beta * (corrected(xp, x, kl) if self.kl_correction else kl)
        return xp.sum(prepared.weights * terms)

    def _coefficients(self, xp: Namespace, log_probs: Array, prepared: Any) -> Array:
        x = self.log_ratios(xp, log_probs, prepared.log_probs_old, prepared)
        slope = inside(xp, x, self.surrogate_slope(xp, clamped(xp, x), prepared.advantages))
        if self.beta:
            d = self.reference_ratios(xp, log_probs, prepared)
            kl_slope = inside(xp, d, self.penalty_slope(xp, clamped(xp, d)))
            if self.kl_correction:
                kl = self.penalties(xp, x, clamped(xp, d), prepared)
                kl_slope = corrected_slope(xp, x, kl, kl_slope)
            slope = slope + self.beta * kl_slope
        return to_tokens(xp, prepared.weights * slope, prepared, self.ratio_of())


@dataclass(frozen=True)
class ClippedObjective(RatioObjective):
    """PPO's pessimistic surrogate, -min(r·A, clip(r)·A), between two walls that subclasses name."""

    def walls(self) -> tuple[float, float]:
        """How far r may fall below 1, and how far it may rise above, before the gradient stops."""
        raise NotImplementedError

    def surrogate(self, xp: Namespace, x: Array, advantages: Array) -> Array:
        low, high = self.walls()
        r = xp.exp(x)
        return -xp.minimum(r * advantages, xp.clip(r, 1 - low, 1 + high) * advantages)

    def surrogate_slope(self, xp: Namespace, x: Array, advantages: Array) -> Array:
        r = xp.exp(x)
        low, high = self.clipped(r, advantages)
        return xp.where(high | low, 0.0, -r * advantages)

    def clipped(self, r: Array, advantages: Array) -> tuple[Array, Array]:
        """Where a ratio is clipped and has no gradient: below the lower bound, and above the upper."""
        low, high = self.walls()
        return (advantages < 0) & (r < 1 - low), (advantages > 0) & (r > 1 + high)


def prepare_ratio(
    groups: Groups, name: str, granularity: str, over: str, drop: bool = False
) -> PreparedPolicy:
    """Freeze the advantage of that name with weights for one term per token or per candidate."""
    if granularity == "token":
        return prepare_policy(groups, advantage(groups, name), token_weights(groups, over, drop))
    if name in PER_TOKEN:
        raise ValueError(
            f"advantage {name!r} is one number per token, and granularity {granularity!r} has one ratio "
            "per sequence: choose granularity='token' or an advantage per candidate such as 'z'"
        )
    weights = candidate_weights(groups, over, drop)
    return prepare_policy(groups, advantage(groups, name), weights)

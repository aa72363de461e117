"""Ratios: log(pi/other) per token, per sequence, as a mean over tokens, or no ratio but log pi itself."""

from __future__ import annotations

from typing import ClassVar, NamedTuple

from tpo.arrays import Array, Namespace
from tpo.groups import masked


class PreparedPolicy(NamedTuple):
    """What an objective made of parts prepares: advantages, weights, old and reference log-probs."""

    log_probs_old: Array
    advantages: Array
    """[B, K, T] or [B, K, 1]"""
    weights: Array | float
    """[B, K, T], [B, K, 1] or a number, from `aggregation`: the loss is Σ weights·term"""
    tokens: Array | None
    lengths: Array | float
    """[B, K, 1] tokens per candidate"""
    reference: Array
    """[B, K, T] log-probs of the reference policy"""


class Ratio:
    """One ratio per token, [B, K, T]. Others are a sub-class. Log-probs are 0 where masked."""

    per_token: ClassVar[bool] = True

    def log(self, xp: Namespace, log_probs: Array, other: Array, prepared: PreparedPolicy) -> Array:
        """[B, K, T] or [B, K, 1] log(pi/other), not yet clamped."""
        return log_probs - other

    def to_tokens(
        self, xp: Namespace, slope: Array, log_probs: Array, prepared: PreparedPolicy
    ) -> Array:
        """[B, K, T] the chain rule: the derivative by log-ratio to that by token log-prob."""
        return masked(xp, slope + xp.zeros_like(log_probs), prepared.tokens)


class SequenceRatio(Ratio):
    """One ratio per sequence, [B, K, 1]: the product over its tokens."""

    per_token = False

    def log(self, xp: Namespace, log_probs: Array, other: Array, prepared: PreparedPolicy) -> Array:
        return xp.sum(super().log(xp, log_probs, other, prepared), axis=-1, keepdims=True)


class MeanRatio(SequenceRatio):
    """One ratio per sequence, [B, K, 1]: the geometric mean over its tokens (GSPO)."""

    def log(self, xp: Namespace, log_probs: Array, other: Array, prepared: PreparedPolicy) -> Array:
        return super().log(xp, log_probs, other, prepared) / prepared.lengths

    def to_tokens(
        self, xp: Namespace, slope: Array, log_probs: Array, prepared: PreparedPolicy
    ) -> Array:
        return super().to_tokens(xp, slope / prepared.lengths, log_probs, prepared)


class LogProb(Ratio):
    """No ratio: log pi of each token itself."""

    def log(self, xp: Namespace, log_probs: Array, other: Array, prepared: PreparedPolicy) -> Array:
        return log_probs


TOKEN, SEQUENCE, MEAN = Ratio(), SequenceRatio(), MeanRatio()
RATIOS = {"token": TOKEN, "sequence": SEQUENCE, "mean": MEAN, "none": LogProb()}

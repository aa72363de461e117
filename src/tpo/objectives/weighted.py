"""The policy-gradient family: each token's log-prob times a weight through which no gradient flows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from tpo.arrays import Array, Namespace
from tpo.groups import Groups, masked
from tpo.objectives.base import Objective, flag, nonnegative
from tpo.objectives.kl import (
    clamped,
    corrected,
    corrected_slope,
    k3_of,
    k3_slope,
    zero_if_clamped,
)


class PreparedPolicy(NamedTuple):
    """What the policy-gradient and ratio families prepare: advantages, weights, old and reference log-probs."""

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


def prepare_policy(groups: Groups, advantages: Array, weights: Array | float) -> PreparedPolicy:
    """Advantages and aggregation weights, with the groups' old and reference log-probs."""
    return PreparedPolicy(
        groups.log_probs_old, advantages, weights, groups.mask, groups.lengths, groups.reference
    )


class WeightedObjective(Objective):
    """L = -Σ sg(credit)·log pi, so that the coefficients are -credit."""

    def credit(self, xp: Namespace, log_probs: Array, prepared: PreparedPolicy) -> Array:
        """[B, K, T] the weight of each token. It may depend on the current log-probs, but has no gradient."""
        return prepared.weights * prepared.advantages

    def _loss(self, xp: Namespace, log_probs: Array, prepared: Any) -> Array:
        log_probs = masked(xp, log_probs, prepared.tokens)
        return -xp.sum(xp.stop_gradient(self.credit(xp, log_probs, prepared)) * log_probs)

    def _coefficients(self, xp: Namespace, log_probs: Array, prepared: Any) -> Array:
        credit = self.credit(xp, masked(xp, log_probs, prepared.tokens), prepared)
        return masked(xp, xp.zeros_like(log_probs) - credit, prepared.tokens)


@dataclass(frozen=True)
class PenalisedObjective(WeightedObjective):
    """L = -Σ sg(credit)·log pi + beta·Σ weights·k3 to the reference, token by token.

    With `kl_correction` the penalty is r·k3 (`kl.corrected`).
    """

    beta: float = nonnegative(0.0)
    kl_correction: bool = flag(False)

    def _loss(self, xp: Namespace, log_probs: Array, prepared: Any) -> Array:
        loss = super()._loss(xp, log_probs, prepared)
        if not self.beta:
            return loss
        x, d = _log_ratios(xp, log_probs, prepared)
        kl = k3_of(xp, clamped(xp, d))
        kl = corrected(xp, clamped(xp, x), kl) if self.kl_correction else kl
        return loss + self.beta * xp.sum(prepared.weights * kl)

    def _coefficients(self, xp: Namespace, log_probs: Array, prepared: Any) -> Array:
        slope = super()._coefficients(xp, log_probs, prepared)
        if not self.beta:
            return slope
        x, d = _log_ratios(xp, log_probs, prepared)
        kl = zero_if_clamped(xp, d, k3_slope(xp, clamped(xp, d)))
        if self.kl_correction:
            kl = corrected_slope(xp, x, k3_of(xp, clamped(xp, d)), kl)
        return slope + self.beta * masked(xp, prepared.weights * kl, prepared.tokens)


def _log_ratios(xp: Namespace, log_probs: Array, prepared: PreparedPolicy) -> tuple[Array, Array]:
    """[B, K, T] log(pi/pi_old) and log(pi/ref)."""
    log_probs = masked(xp, log_probs, prepared.tokens)
    return log_probs - prepared.log_probs_old, log_probs - prepared.reference

"""The policy-gradient family: a number on each token's log-prob, through which no gradient flows."""

from __future__ import annotations

from typing import Any, NamedTuple

from tpo.arrays import Array, Namespace
from tpo.groups import Group, masked
from tpo.objectives.base import Objective


class PolicySignal(NamedTuple):
    """What the policy-gradient and ratio families freeze: advantages, weights, two snapshots."""

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


def policy_signal(group: Group, advantages: Array, weights: Array | float) -> PolicySignal:
    """Freeze advantages and aggregation weights beside the group's snapshots."""
    return PolicySignal(
        group.log_probs_old, advantages, weights, group.mask, group.lengths, group.reference
    )


class WeightedObjective(Objective):
    """L = -Σ sg(credit)·log pi, so that the coefficients are -credit."""

    def credit(self, xp: Namespace, log_probs: Array, signal: PolicySignal) -> Array:
        """[B, K, T] the weight of each token; may depend on the current log-probs, without gradient."""
        return signal.weights * signal.advantages

    def value(self, xp: Namespace, log_probs: Array, signal: Any) -> Array:
        log_probs = masked(xp, log_probs, signal.tokens)
        return -xp.sum(xp.stop_gradient(self.credit(xp, log_probs, signal)) * log_probs)

    def slope(self, xp: Namespace, log_probs: Array, signal: Any) -> Array:
        credit = self.credit(xp, masked(xp, log_probs, signal.tokens), signal)
        return masked(xp, xp.zeros_like(log_probs) - credit, signal.tokens)

"""Objectives made of named parts: an advantage, a ratio, a surrogate, a KL, the mean over terms."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

from tpo.arrays import Array, Namespace
from tpo.groups import Groups, masked
from tpo.objectives.aggregation import Mean
from tpo.objectives.base import Objective, flag, nonnegative
from tpo.objectives.kl import KL, clamped, zero_if_clamped
from tpo.objectives.ratio import RATIOS, TOKEN, PreparedPolicy, Ratio
from tpo.objectives.surrogates import LIKELIHOOD, Surrogate, clip

__all__ = ["KL", "LIKELIHOOD", "Composed", "Mean", "Parts", "Surrogate", "WithKL", "clip"]


def from_behaviour(groups: Groups) -> Groups:
    """Ratios to `log_probs_rollout`, the policy that sampled, where the groups have it."""
    if groups.log_probs_rollout is None:
        return groups
    return replace(groups, log_probs_old=groups.log_probs_rollout, log_probs_ref=groups.reference)


class Parts(NamedTuple):
    """L = Σ weights·[surrogate(log r, A) + beta·KL]"""

    advantage: Callable[[Groups], Array]
    """[B, K], or [B, K, T] if it is per token"""
    surrogate: Surrogate = LIKELIHOOD
    ratio: str | Ratio = "none"
    """x is the logarithm of this ratio: a name of `RATIOS`, or a ratio of your own; "none": x is log pi"""
    weights: Mean = Mean("candidate")
    kl: KL = KL()
    snapshot: Callable[[Groups], Groups] | None = None
    """makes the groups whose `log_probs_old` ratios are taken to; None: the groups themselves"""
    gate: Callable[[Namespace, Array, PreparedPolicy], Array] | None = None
    """[B, K, T] or [B, K, 1] of the current log-probs: whether, or by how much, the advantage counts; it has no
    gradient. None: everywhere"""

    @property
    def measure(self) -> Ratio:
        """The ratio, found by its name."""
        return RATIOS[self.ratio] if isinstance(self.ratio, str) else self.ratio

    @property
    def unit(self) -> Ratio:
        """What a term belongs to: a token's log pi, or a ratio."""
        return TOKEN if self.surrogate.value is None else self.measure


def prepare_policy(groups: Groups, advantages: Array, weights: Array | float) -> PreparedPolicy:
    """Advantages [B, K] or [B, K, T] and aggregation weights, with the groups' old and reference log-probs."""
    if len(advantages.shape) == 2:
        advantages = advantages[..., None]
    return PreparedPolicy(
        groups.log_probs_old, advantages, weights, groups.mask, groups.lengths, groups.reference
    )


class Composed(Objective):
    """An objective that says which parts it is made of; loss and coefficients follow."""

    prepared_type: ClassVar[type] = PreparedPolicy

    def parts(self) -> Parts:
        """In subclasses: what the objective is made of."""
        raise NotImplementedError

    def _prepare(self, groups: Groups) -> Any:
        parts = self.parts()
        groups = groups if parts.snapshot is None else parts.snapshot(groups)
        weights = parts.weights.of(groups, parts.unit.per_token)
        advantages = parts.advantage(groups)
        if len(advantages.shape) == 3 and advantages.shape[2] > 1 and not parts.unit.per_token:
            raise ValueError(
                f"{type(self).__name__} has one ratio per sequence and an advantage per token: take a "
                "ratio per token, or an advantage per candidate such as 'z'"
            )
        return prepare_policy(groups, advantages, weights)

    def _loss(self, xp: Namespace, log_probs: Array, prepared: Any) -> Array:
        parts, log_probs = self.parts(), masked(xp, log_probs, prepared.tokens)
        x, advantages = _ratio_and_advantages(xp, parts, log_probs, prepared)
        term = parts.surrogate.value
        if term is None:
            slope = parts.surrogate.slope(xp, x, advantages)
            terms = xp.stop_gradient(slope) * log_probs
        else:
            terms = term(xp, clamped(xp, x) if parts.surrogate.clamp else x, advantages)
        if parts.kl.beta:
            terms = terms + parts.kl.beta * parts.kl.value(xp, parts.unit, log_probs, prepared)
        return xp.sum(prepared.weights * terms)

    def _coefficients(self, xp: Namespace, log_probs: Array, prepared: Any) -> Array:
        parts, log_probs = self.parts(), masked(xp, log_probs, prepared.tokens)
        x, advantages = _ratio_and_advantages(xp, parts, log_probs, prepared)
        if parts.surrogate.value is None or not parts.surrogate.clamp:
            slope = parts.surrogate.slope(xp, x, advantages)
        else:
            slope = parts.surrogate.slope(xp, clamped(xp, x), advantages)
            slope = zero_if_clamped(xp, x, slope)
        if parts.kl.beta:
            slope = slope + parts.kl.beta * parts.kl.slope(xp, parts.unit, log_probs, prepared)
        return parts.unit.to_tokens(xp, prepared.weights * slope, log_probs, prepared)


def _ratio_and_advantages(
    xp: Namespace, parts: Parts, log_probs: Array, prepared: PreparedPolicy
) -> tuple[Array, Array]:
    """The logarithm of the ratio, and the advantages times their gate."""
    x = parts.measure.log(xp, log_probs, prepared.log_probs_old, prepared)
    if parts.gate is None:
        return x, prepared.advantages
    gate = parts.gate(xp, xp.stop_gradient(log_probs), prepared)
    return x, prepared.advantages * xp.cast(gate, log_probs)


@dataclass(frozen=True)
class WithKL(Composed):
    """Composed objectives with a KL to the reference of their own: `kl=KL(self.beta, self.kl_correction)`."""

    beta: float = nonnegative(0.0)
    kl_correction: bool = flag(False)

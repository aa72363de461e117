"""Surrogates: the loss term of one ratio, as a function of its logarithm x and of the advantage A."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from tpo.arrays import Array, Namespace

Term = Callable[[Namespace, Array, Array], Array]
"""(xp, x, A) -> array"""


class Surrogate(NamedTuple):
    """A loss term and its slope. Without `value` the term is the slope, held constant, times log pi."""

    slope: Term
    """d term / dx; without `value`, d term / d log pi"""
    value: Term | None = None
    clamp: bool = True
    """whether x is clamped to ±LIMIT, beyond which `value` has no gradient"""
    bounds: tuple[float, float] | None = None
    """(low, high) if r is clipped to [1 - low, 1 + high]"""


LIKELIHOOD = Surrogate(slope=lambda xp, x, advantages: -advantages)
"""-A·log pi, the policy gradient."""


def _importance(xp: Namespace, x: Array, advantages: Array) -> Array:
    return -xp.exp(x) * advantages


IMPORTANCE = Surrogate(slope=_importance, value=_importance)
"""-r·A, which is its own slope."""


def clip(low: float, high: float, dual: float = 0.0) -> Surrogate:
    """PPO's pessimistic surrogate, -min(r·A, clip(r, 1 - low, 1 + high)·A).

    dual: where A < 0 the loss is at most -dual·A (dual clip, arXiv 1912.09729); 0: no such bound.
    """

    def value(xp: Namespace, x: Array, advantages: Array) -> Array:
        r = xp.exp(x)
        loss = -xp.minimum(r * advantages, xp.clip(r, 1 - low, 1 + high) * advantages)
        if not dual:
            return loss
        return xp.where(advantages < 0, xp.minimum(loss, -dual * advantages), loss)

    def slope(xp: Namespace, x: Array, advantages: Array) -> Array:
        r = xp.exp(x)
        below, above = clipped(r, advantages, low, high)
        flat = above | below
        if dual:
            flat = flat | ((advantages < 0) & (r > dual))
        return xp.where(flat, 0.0, -r * advantages)

    return Surrogate(slope, value, bounds=(low, high))


def clipped(r: Array, advantages: Array, low: float, high: float) -> tuple[Array, Array]:
    """Where a ratio is clipped and has no gradient: at the lower bound, and at the upper."""
    return (advantages < 0) & (r < 1 - low), (advantages > 0) & (r > 1 + high)


def weighted_likelihood(factor: Term) -> Surrogate:
    """-sg(factor(x, A))·A·log pi: the policy gradient, each log-prob with a weight that has no gradient."""
    return Surrogate(lambda xp, x, advantages: -factor(xp, x, advantages) * advantages)

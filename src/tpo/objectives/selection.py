"""Which of a batch's tokens to take: the largest few, or the smallest whose mean is within a bound."""

from __future__ import annotations

import math

from tpo.arrays import Array, Namespace
from tpo.groups import LOW, masked


def largest_share(
    xp: Namespace, values: Array, share: float, eligible: Array, mask: Array | None
) -> Array:
    """Bool like `values`: the eligible tokens with the largest values, this share of all tokens, at least one.

    Equal values are taken together, so the order of tokens has no influence.
    """
    if 0 in values.shape:
        return eligible
    n = xp.clip(share * number(xp, values, mask), 1.0, None)
    ascending = xp.sort(xp.where(eligible, values, LOW).reshape(-1))
    position = xp.cumsum(xp.ones_like(ascending), axis=-1)
    chosen = position >= float(ascending.shape[0]) - n + 1
    least = xp.amin(xp.where(chosen, ascending, -LOW), axis=-1)
    return eligible & (values >= least)


def smallest_within(xp: Namespace, values: Array, bound: float, mask: Array | None) -> Array:
    """Bool like `values`: as many of the smallest values as have a mean of at most `bound`.

    Equal values are taken or left together, so the order of tokens has no influence.
    """
    if 0 in values.shape:
        return values <= bound
    values = masked(xp, values, mask, -LOW)
    ascending = xp.sort(values.reshape(-1))
    present = ascending < -LOW
    total = xp.cumsum(xp.where(present, ascending, 0.0), axis=-1)
    position = xp.cumsum(xp.ones_like(ascending), axis=-1)
    beyond = present & (total > bound * position)
    return values < xp.amin(xp.where(beyond, ascending, -LOW), axis=-1)


def number(xp: Namespace, x: Array, mask: Array | None) -> Array:
    """[] how many entries of `x` are not masked, at least 1."""
    if mask is None:
        return xp.ones_like(x.reshape(-1)[0]) * math.prod(x.shape)
    return xp.clip(xp.sum(xp.cast(mask, x)), 1.0, None)


def batch_mean(xp: Namespace, x: Array, mask: Array | None) -> Array:
    """[] the mean over the unmasked entries of the batch; 0 if there is none."""
    if 0 in x.shape:
        return xp.sum(x)
    return xp.sum(masked(xp, x, mask)) / number(xp, x, mask)

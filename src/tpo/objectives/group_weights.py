"""A weight per group, which says what TPO optimises across prompts: likelihood, accuracy or pass@k."""

from __future__ import annotations

import re
from typing import cast

from tpo.arrays import Array, Namespace
from tpo.options import Kind, option

_NAMED = re.compile(r"target|accuracy|pass@([1-9]\d{0,5})")

WEIGHT = Kind(
    "'target', 'accuracy' or 'pass@k' for a number of attempts k, such as 'pass@8'",
    lambda v: isinstance(v, str) and _NAMED.fullmatch(v) is not None,
    symbol="NAME",
)


def weight_option(default: str) -> str:
    """An option that is `target`, `accuracy` or `pass@k`."""
    return cast(str, option(default, WEIGHT))


def attempts(weight: str) -> int:
    """k of `pass@k`; 1 of `accuracy`."""
    found = _NAMED.fullmatch(weight)
    return int(found[1] or 1) if found else 1


def group_weights(xp: Namespace, p_old: Array, q: Array, informative: Array, k: int) -> Array:
    r"""[B, 1] the weights with which the gradient at the snapshot is that of expected pass@k.

    .. math:: w = \frac{k\,p(1-p)^k}{\sum_i \max(q_i - p^{old}_i, 0)}, \qquad
              p = \sum_{q_i > p^{old}_i} p^{old}_i

    p_old, q: [B, K]; informative: [B] bool. With binary scores p is the group's success rate. TPO's gradient at
    the snapshot is the denominator, about 1 - p, times (mean over successes - mean over failures). That of
    pass@k is k·p(1 - p)^k times the same. With other scores the successes are what the target raises. A
    zero-variance group has weight 1.
    """
    raised = q > p_old
    moved = xp.sum(xp.where(raised, q - p_old, 0.0), axis=-1, keepdims=True)
    p = xp.sum(xp.where(raised, p_old, 0.0), axis=-1, keepdims=True)
    wanted = k * p * (1 - p) ** k
    weighed = informative[..., None] & (moved > 0)
    return xp.where(weighed, wanted / xp.where(weighed, moved, 1.0), 1.0)

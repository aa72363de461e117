"""A weight per group: likelihood, accuracy or pass@k across prompts, DG's gate, and the shares of tasks."""

from __future__ import annotations

import re
from typing import cast

from tpo.arrays import Array, Namespace
from tpo.groups import Groups, masked, z_scores
from tpo.objectives.multi import task_shares
from tpo.objectives.target_matching import probabilities
from tpo.options import Kind, option

_NAMED = re.compile(r"target|accuracy|gate|pass@([1-9]\d{0,5})")

WEIGHT = Kind(
    "'target', 'accuracy' or 'pass@k' for a number of attempts k, such as 'pass@8', or 'gate'",
    lambda v: isinstance(v, str) and _NAMED.fullmatch(v) is not None,
    symbol="NAME",
)


def weight_option(default: str) -> str:
    """An option that is `target`, `accuracy`, `pass@k` or `gate`."""
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


def gate(groups: Groups, u: Array) -> Array:
    r"""[B, 1] DG's gate of a group: near 1 if its successes are less probable than its failures, else near 0.

    .. math:: \sigma(\chi), \qquad \chi = \frac1K\sum_i u_i \cdot
              \frac{1}{|o_i|}\sum_t -\log\pi_{old}(o_{it})

    u: [B, K], standardised scores. The surprise of a candidate is the mean over its tokens. A zero-variance
    group has 1/2.
    """
    xp = groups.xp
    lengths = groups.lengths if isinstance(groups.lengths, float) else groups.lengths[..., 0]
    surprise = -xp.sum(groups.log_probs_old, axis=-1) / lengths
    return xp.sigmoid(
        xp.sum(masked(xp, u * surprise, groups.valid), axis=-1, keepdims=True) / groups.sizes
    )


def composed_weights(
    groups: Groups, weight: str, task_logits: tuple[float, ...], log_scores: Array, q: Array
) -> Array | None:
    """[B, 1] the weight of that name times the shares of tasks; None for 1 throughout."""
    xp, found = groups.xp, None
    if weight == "gate":
        found = gate(groups, z_scores(xp, groups.total, groups.counted))
    elif weight != "target":
        p_old = probabilities(xp, log_scores, groups.valid)
        found = group_weights(xp, p_old, q, groups.informative, attempts(weight))
    if not task_logits:
        return found
    shares = task_shares(groups, task_logits)[..., 0]
    return shares if found is None else shares * found

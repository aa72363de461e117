"""How token terms become one number: every loss is Σ weights·term, with the weights frozen beforehand."""

from __future__ import annotations

from tpo.arrays import Array
from tpo.groups import Group

TOKEN_WEIGHTS = ("candidate", "group", "sequence", "token", "constant")


def token_weights(
    group: Group, over: str, drop: bool = False, length: float | None = None
) -> Array:
    """[B, K, T] weights that make Σ weights·term the mean that `over` names.

    `candidate`: sum over tokens, mean over all candidates of the batch (single-sample methods).
    `group`: sum over tokens and candidates, mean over contexts (the TPO paper's form).
    `sequence`: mean over tokens, then candidates, then contexts (DeepSeekMath).
    `token`: mean over all tokens of the batch (DAPO).
    `constant`: sum over tokens divided by `length`, mean over candidates, then contexts (Dr. GRPO).
    With `drop`, groups whose candidates all score alike weigh nothing and do not count in the mean.
    """
    xp = group.xp
    like = group.log_probs_old
    kept = contexts_kept(group, drop)
    tokens = (xp.ones_like(like) if group.mask is None else xp.cast(group.mask, like)) * kept
    n_contexts = number(group, kept, drop)
    if over == "candidate":
        return tokens / at_least_one(group, xp.sum(candidates(group) * kept))
    if over == "group":
        return tokens / n_contexts
    if over == "sequence":
        return tokens / group.lengths / sizes(group) / n_contexts
    if over == "token":
        return tokens / at_least_one(group, xp.sum(tokens))
    return tokens / (length or like.shape[-1]) / sizes(group) / n_contexts


def candidate_weights(group: Group, mean: bool, drop: bool = False) -> Array:
    """[B, K, 1] weights for one term per candidate: sum (or mean) over the group, mean over contexts."""
    kept = contexts_kept(group, drop)
    weights = candidates(group) * kept / number(group, kept, drop)
    return weights / sizes(group) if mean else weights


def candidates(group: Group) -> Array:
    """[B, K, 1] 1 for every candidate that counts."""
    xp, like = group.xp, group.log_probs_old
    return (
        xp.ones_like(like[..., :1])
        if group.valid is None
        else xp.cast(group.valid, like)[..., None]
    )


def sizes(group: Group) -> Array | float:
    """[B, 1, 1], or a number: candidates per group, at least 1."""
    return group.sizes if isinstance(group.sizes, float) else group.sizes[..., None]


def contexts_kept(group: Group, drop: bool) -> Array | float:
    """[B, 1, 1] 1 for contexts that stay in the loss."""
    return group.xp.cast(group.informative, group.log_probs_old)[:, None, None] if drop else 1.0


def number(group: Group, kept: Array | float, drop: bool) -> Array | float:
    """How many contexts the mean runs over, at least 1."""
    return at_least_one(group, group.xp.sum(kept)) if drop else max(group.scores.shape[0], 1)


def at_least_one(group: Group, n: Array) -> Array:
    """n, or 1 where n is 0: an empty sum is divided by 1."""
    return group.xp.clip(n, 1.0, None)

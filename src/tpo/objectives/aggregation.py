"""How token terms become one number: every loss is Σ weights·term, with the weights frozen beforehand.

Where nothing is masked and nothing dropped a weight is a plain number, and costs nothing.
"""

from __future__ import annotations

import math

from tpo.arrays import Array
from tpo.groups import Group

TOKEN_WEIGHTS = ("candidate", "group", "sequence", "token", "constant")


def token_weights(
    group: Group, over: str, drop: bool = False, length: float | None = None
) -> Array | float:
    """[B, K, T], or a number: the weights that make Σ weights·term the mean that `over` names.

    `candidate`: sum over tokens, mean over all candidates of the batch (single-sample methods).
    `group`: sum over tokens and candidates, mean over contexts (the TPO paper's form).
    `sequence`: mean over tokens, then candidates, then contexts (DeepSeekMath).
    `token`: mean over all tokens of the batch (DAPO).
    `constant`: sum over tokens divided by `length`, mean over candidates, then contexts (Dr. GRPO).
    With `drop`, groups whose candidates all score alike weigh nothing and do not count in the mean.
    """
    shape = tuple(group.log_probs_old.shape)
    kept, n_contexts = contexts(group, drop)
    tokens = present(group, group.mask) * kept
    if over == "candidate":
        return tokens / total(group, present(group, _column(group.counted)) * kept, shape[:2])
    if over == "group":
        return tokens / n_contexts
    if over == "sequence":
        return tokens / group.lengths / sizes(group) / n_contexts
    if over == "token":
        return tokens / total(group, tokens, shape)
    return tokens / (length or shape[-1]) / sizes(group) / n_contexts


def candidate_weights(group: Group, over: str, drop: bool = False) -> Array | float:
    """[B, K, 1], or a number: `token_weights` where a candidate has one term instead of one per token."""
    kept, n_contexts = contexts(group, drop)
    weights = candidates(group) * kept
    if over == "candidate":
        return weights / total(group, weights, tuple(group.log_probs_old.shape[:2]))
    if over == "group":
        return weights / n_contexts
    return weights / n_contexts / sizes(group)


def present(group: Group, mask: Array | None) -> Array | float:
    """1 where the mask holds and 0 elsewhere; the number 1 without a mask."""
    return 1.0 if mask is None else group.xp.cast(mask, group.log_probs_old)


def candidates(group: Group) -> Array | float:
    """[B, K, 1], or the number 1: 1 for every candidate that counts."""
    return present(group, _column(group.valid))


def _column(x: Array | None) -> Array | None:
    """[B, K] as [B, K, 1]."""
    return None if x is None else x[..., None]


def sizes(group: Group) -> Array | float:
    """[B, 1, 1], or a number: candidates per group whose score counts, at least 1."""
    return group.sizes if isinstance(group.sizes, float) else group.sizes[..., None]


def contexts(group: Group, drop: bool) -> tuple[Array | float, Array | float]:
    """[B, 1, 1] 1 for every context that stays in the loss, and how many stay, at least 1."""
    if not drop:
        return 1.0, max(group.scores.shape[0], 1)
    kept = present(group, group.informative[:, None, None])
    return kept, total(group, kept, tuple(group.scores.shape[:1]))


def total(group: Group, ones: Array | float, shape: tuple[int, ...]) -> Array | float:
    """The sum of `ones` broadcast to `shape`, at least 1."""
    if isinstance(ones, float):
        return float(max(math.prod(shape), 1))
    repeats = math.prod(shape) / max(math.prod(ones.shape), 1)
    return group.xp.clip(group.xp.sum(ones) * repeats, 1.0, None)

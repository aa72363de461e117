"""Weights that aggregate token terms into a loss, Σ weights·term. They are computed once, in `prepare`.

If nothing is masked or dropped, a weight is a plain number and needs no array.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

from tpo.arrays import Array
from tpo.groups import Groups

TOKEN_WEIGHTS = ("candidate", "group", "sequence", "token", "constant")


class Mean(NamedTuple):
    """How terms become a loss: the mean that `token_weights` calls `over`, and what changes its weights."""

    over: str
    drop: bool = False
    """whether zero-variance groups are left out, of the loss and of the mean"""
    length: float | None = None
    """the divisor of `constant`"""
    times: Callable[[Groups], Array | float] | None = None
    """[B, K, T], [B, K, 1] or [B, 1, 1] a factor on the weights"""

    def of(self, groups: Groups, per_token: bool) -> Array | float:
        """The weights of terms per token, or of one term per candidate."""
        if per_token:
            weights = token_weights(groups, self.over, self.drop, self.length)
        else:
            weights = candidate_weights(groups, self.over, self.drop)
        return weights if self.times is None else weights * self.times(groups)


def token_weights(
    groups: Groups, over: str, drop: bool = False, length: float | None = None
) -> Array | float:
    """[B, K, T], or a number: the weights that make Σ weights·term the mean that `over` names.

    `candidate`: sum over tokens, mean over all candidates of the batch (single-sample methods).
    `group`: sum over tokens and candidates, mean over contexts (the TPO paper's form).
    `sequence`: mean over tokens, then candidates, then contexts (DeepSeekMath).
    `token`: mean over all tokens of the batch (DAPO).
    `constant`: sum over tokens divided by `length`, mean over candidates, then contexts (Dr. GRPO).
    `sum`: sum over all tokens of the batch.
    With `drop`, zero-variance groups get weight 0 and do not count in the mean.
    """
    shape = tuple(groups.log_probs_old.shape)
    kept, n_contexts = kept_contexts(groups, drop)
    tokens = present(groups, groups.mask) * kept
    if over == "candidate":
        return tokens / broadcast_sum(
            groups, present(groups, _column(groups.counted)) * kept, shape[:2]
        )
    if over == "group":
        return tokens / n_contexts
    if over == "sequence":
        return tokens / groups.lengths / sizes(groups) / n_contexts
    if over == "token":
        return tokens / broadcast_sum(groups, tokens, shape)
    if over == "sum":
        return tokens
    return tokens / (length or shape[-1]) / sizes(groups) / n_contexts


def candidate_weights(groups: Groups, over: str, drop: bool = False) -> Array | float:
    """[B, K, 1], or a number: `token_weights` for losses with one term per candidate instead of per token."""
    kept, n_contexts = kept_contexts(groups, drop)
    weights = candidates(groups) * kept
    if over == "candidate":
        return weights / broadcast_sum(groups, weights, tuple(groups.log_probs_old.shape[:2]))
    if over == "group":
        return weights / n_contexts
    return weights / n_contexts / sizes(groups)


def present(groups: Groups, mask: Array | None) -> Array | float:
    """1 where the mask holds and 0 elsewhere; the number 1 without a mask."""
    return 1.0 if mask is None else groups.xp.cast(mask, groups.log_probs_old)


def candidates(groups: Groups) -> Array | float:
    """[B, K, 1], or the number 1: 1 for every candidate that counts."""
    return present(groups, _column(groups.valid))


def _column(x: Array | None) -> Array | None:
    """[B, K] as [B, K, 1]."""
    return None if x is None else x[..., None]


def sizes(groups: Groups) -> Array | float:
    """[B, 1, 1], or a number: candidates per group whose score counts, at least 1."""
    return groups.sizes if isinstance(groups.sizes, float) else groups.sizes[..., None]


def kept_contexts(groups: Groups, drop: bool) -> tuple[Array | float, Array | float]:
    """[B, 1, 1] 1 for every context that is in the loss, 0 for a dropped one; and their number, at least 1."""
    if not drop:
        return 1.0, max(groups.scores.shape[0], 1)
    kept = present(groups, groups.informative[:, None, None])
    return kept, broadcast_sum(groups, kept, tuple(groups.scores.shape[:1]))


def broadcast_sum(groups: Groups, ones: Array | float, shape: tuple[int, ...]) -> Array | float:
    """The sum of `ones` broadcast to `shape`, at least 1."""
    if isinstance(ones, float):
        return float(max(math.prod(shape), 1))
    repeats = math.prod(shape) / max(math.prod(ones.shape), 1)
    return groups.xp.clip(groups.xp.sum(ones) * repeats, 1.0, None)

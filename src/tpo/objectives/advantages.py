"""Advantages from scores. Each function takes `Groups` and returns [B, K], or [B, K, T] if it is per token."""

from __future__ import annotations

from collections.abc import Callable

from tpo.arrays import Array, Namespace
from tpo.groups import Groups, centred_scores, masked, moments, z_scores
from tpo.objectives.returns import gae


def group_mean(groups: Groups) -> Array:
    """[B, 1] the mean score of each group."""
    return groups.xp.sum(groups.total, axis=-1, keepdims=True) / groups.sizes


def centred(groups: Groups) -> Array:
    """[B, K] R - mean(R) within the group; exactly 0 where all scores are equal."""
    return centred_scores(groups.xp, groups.total, groups.counted)


def standardized(groups: Groups, sigma_floor: float = 0.0) -> Array:
    """[B, K] the z-score within the group, population sigma, of at least `sigma_floor`."""
    return z_scores(groups.xp, groups.total, groups.counted, sigma_floor)


def leave_one_out(groups: Groups) -> Array:
    """[B, K] R_i - mean_{j≠i} R_j = K/(K-1)·(R_i - mean(R))"""
    if groups.total.shape[-1] < 2:
        raise ValueError(
            "scores has K = 1, and leaving one out needs K >= 2: sample more candidates"
        )
    n = groups.sizes
    others = n - 1.0
    return centred(groups) * n / (others + (others == 0))


def over_mean(groups: Groups) -> Array:
    """[B, K] (R - mean)/(mean + 1e-6); all 0 in a group without a success."""
    return centred(groups) / (group_mean(groups) + 1e-6)


def batch_sigma(groups: Groups) -> Array:
    """[1, 1] the population sigma of all scores of the batch."""
    counted = None if groups.counted is None else groups.counted.reshape(1, -1)
    return moments(groups.xp, groups.total.reshape(1, -1), counted)[1]


def batch_z(xp: Namespace, x: Array, mask: Array | None) -> Array:
    """`x` standardised over all unmasked entries of the batch; 0 if all are equal."""
    if 0 in x.shape:
        return x
    flat = z_scores(xp, x.reshape(-1), None if mask is None else mask.reshape(-1))
    return flat.reshape(x.shape)


def token_rewards(groups: Groups) -> Array:
    """[B, K, T] the dense rewards, or the candidate's score repeated on each of its tokens."""
    if groups.token_scores is not None:
        return groups.token_scores
    return masked(
        groups.xp, groups.total[..., None] + groups.xp.zeros_like(groups.log_probs_old), groups.mask
    )


def outcome_rewards(groups: Groups) -> Array:
    """[B, K, T] the dense rewards, or the candidate's score on its last token."""
    if groups.token_scores is not None:
        return groups.token_scores
    xp = groups.xp
    like = groups.log_probs_old
    chosen = xp.ones_like(like) if groups.mask is None else xp.cast(groups.mask, like)
    later = xp.sum(chosen, axis=-1, keepdims=True) - xp.cumsum(chosen, axis=-1)
    return groups.total[..., None] * chosen * xp.cast(later == 0, like)


def above_position(groups: Groups) -> Array:
    """[B, K, T] token reward minus its mean over the batch at the same position."""
    xp = groups.xp
    rewards = token_rewards(groups)
    present = xp.ones_like(rewards) if groups.mask is None else xp.cast(groups.mask, rewards)
    n = xp.clip(xp.sum(present, axis=(0, 1), keepdims=True), 1.0, None)
    return (rewards - xp.sum(rewards, axis=(0, 1), keepdims=True) / n) * present


def above_given(groups: Groups) -> Array:
    """[B, K] the score minus `groups.baseline`."""
    if groups.baseline is None:
        raise ValueError("advantage 'given' needs baseline: pass baseline=... to tpo.Groups")
    return masked(groups.xp, groups.total - groups.baseline[:, None], groups.valid)


def critic(groups: Groups, gamma: float = 1.0, lam: float | Array = 0.95) -> Array:
    """[B, K, T] generalised advantage estimation."""
    if groups.values is None:
        raise ValueError("advantage 'gae' needs values: pass values=... to tpo.Groups")
    return gae(outcome_rewards(groups), groups.values, gamma, lam, groups.mask)


PER_CANDIDATE: dict[str, Callable[[Groups], Array]] = {
    "z": standardized,
    "centred": centred,
    "leave_one_out": leave_one_out,
    "over_mean": over_mean,
    "given": above_given,
    "score": lambda groups: groups.total,
}
PER_TOKEN: dict[str, Callable[[Groups], Array]] = {
    "position": above_position,
    "gae": critic,
    "reward": token_rewards,
}
ADVANTAGES = {**PER_TOKEN, **PER_CANDIDATE}
"""What an option `advantage` chooses from, by name."""

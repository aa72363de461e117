"""How scores become advantages. Each function takes a Group and returns [B, K], or [B, K, T] per token."""

from __future__ import annotations

from collections.abc import Callable

from tpo.arrays import Array, Namespace
from tpo.groups import Group, centred_scores, masked, moments, z_scores
from tpo.objectives.returns import gae


def group_mean(group: Group) -> Array:
    """[B, 1] the mean score of each group."""
    return group.xp.sum(group.total, axis=-1, keepdims=True) / group.sizes


def centred(group: Group) -> Array:
    """[B, K] R - mean(R) within the group; exactly 0 where all scores are equal."""
    return centred_scores(group.xp, group.total, group.counted)


def standardized(group: Group) -> Array:
    """[B, K] the z-score within the group, population sigma."""
    return z_scores(group.xp, group.total, group.counted)


def leave_one_out(group: Group) -> Array:
    """[B, K] R_i - mean_{j≠i} R_j = K/(K-1)·(R_i - mean(R))"""
    if group.total.shape[-1] < 2:
        raise ValueError(
            "scores has K = 1, and leaving one out needs K >= 2: sample more candidates"
        )
    n = group.sizes
    others = n - 1.0
    return centred(group) * n / (others + (others == 0))


def over_mean(group: Group) -> Array:
    """[B, K] (R - mean)/(mean + 1e-6); a group without a success has only zeros."""
    return centred(group) / (group_mean(group) + 1e-6)


def batch_sigma(group: Group) -> Array:
    """[1, 1] the population sigma of all scores of the batch."""
    counted = None if group.counted is None else group.counted.reshape(1, -1)
    return moments(group.xp, group.total.reshape(1, -1), counted)[1]


def batch_z(xp: Namespace, x: Array, mask: Array | None) -> Array:
    """`x` standardised over every unmasked entry of the batch; 0 where all are equal."""
    if 0 in x.shape:
        return x
    flat = z_scores(xp, x.reshape(-1), None if mask is None else mask.reshape(-1))
    return flat.reshape(x.shape)


def token_rewards(group: Group) -> Array:
    """[B, K, T] the dense rewards, or the candidate's score repeated on each of its tokens."""
    if group.token_scores is not None:
        return group.token_scores
    return masked(
        group.xp, group.total[..., None] + group.xp.zeros_like(group.log_probs_old), group.mask
    )


def outcome_rewards(group: Group) -> Array:
    """[B, K, T] the dense rewards, or the candidate's score on its last token."""
    if group.token_scores is not None:
        return group.token_scores
    xp = group.xp
    like = group.log_probs_old
    chosen = xp.ones_like(like) if group.mask is None else xp.cast(group.mask, like)
    later = xp.sum(chosen, axis=-1, keepdims=True) - xp.cumsum(chosen, axis=-1)
    return group.total[..., None] * chosen * xp.cast(later == 0, like)


def above_position(group: Group) -> Array:
    """[B, K, T] token reward minus its mean over the batch at the same position."""
    xp = group.xp
    rewards = token_rewards(group)
    present = xp.ones_like(rewards) if group.mask is None else xp.cast(group.mask, rewards)
    n = xp.clip(xp.sum(present, axis=(0, 1), keepdims=True), 1.0, None)
    return (rewards - xp.sum(rewards, axis=(0, 1), keepdims=True) / n) * present


def above_given(group: Group) -> Array:
    """[B, K] the score minus `group.baseline`."""
    if group.baseline is None:
        raise ValueError("advantage 'given' needs baseline: pass baseline=... to tpo.Group")
    return masked(group.xp, group.total - group.baseline[:, None], group.valid)


def critic(group: Group) -> Array:
    """[B, K, T] generalised advantage estimation with gamma 1 and lambda .95."""
    if group.values is None:
        raise ValueError("advantage 'gae' needs values: pass values=... to tpo.Group")
    return gae(outcome_rewards(group), group.values, gamma=1.0, lam=0.95, mask=group.mask)


PER_CANDIDATE: dict[str, Callable[[Group], Array]] = {
    "z": standardized,
    "centred": centred,
    "leave_one_out": leave_one_out,
    "over_mean": over_mean,
    "given": above_given,
    "score": lambda group: group.total,
}
PER_TOKEN: dict[str, Callable[[Group], Array]] = {
    "position": above_position,
    "gae": critic,
    "reward": token_rewards,
}
ADVANTAGES = (*PER_TOKEN, *PER_CANDIDATE)


def advantage(group: Group, name: str) -> Array:
    """[B, K, T] or [B, K, 1] the advantage of that name."""
    if name in PER_CANDIDATE:
        return PER_CANDIDATE[name](group)[..., None]
    return PER_TOKEN[name](group)

"""What scores are divided by before they tilt a target: sigma or mean of the group, sigma of the batch, one."""

from __future__ import annotations

from tpo.arrays import Array
from tpo.groups import Groups, z_scores
from tpo.objectives.advantages import batch_sigma, batch_z, centred, group_mean

SCALES = ("sigma", "one", "mean", "batch_sigma")
"""TPO and GRPO; Dr. GRPO; MaxRL; and one scale for the whole batch (LPO's tau)."""

EACH_REWARD = "each_reward"
"""GDPO's: each of several rewards is standardised within the group, and their sum over the batch."""


def scaled_scores(groups: Groups, scale: str, sigma_floor: float = 0.0) -> Array:
    """[B, K] (R - mean)/scale; 0 where the scale is 0, and for a mean of 0 or below."""
    if scale == "sigma":
        return z_scores(groups.xp, groups.total, groups.counted, sigma_floor)
    above = centred(groups)
    if scale == "one":
        return above
    by = batch_sigma(groups) if scale == "batch_sigma" else group_mean(groups)
    usable = by > 0
    return groups.xp.where(usable, above / groups.xp.where(usable, by, 1.0), 0.0)


def each_reward(
    groups: Groups, reward_weights: tuple[float, ...], sigma_floor: float = 0.0
) -> Array:
    """[B, K] each reward standardised within the group, their weighted sum standardised over the batch."""
    xp = groups.xp
    rewards = groups.scores if len(groups.scores.shape) == 3 else groups.scores[..., None]
    n = rewards.shape[-1]
    weights = reward_weights or (1.0,) * n
    if len(weights) != n:
        raise ValueError(
            f"reward_weights has {len(weights)} entries and scores {n} rewards: give one per reward"
        )
    each = [
        w * z_scores(xp, rewards[..., r], groups.counted, sigma_floor)
        for r, w in enumerate(weights)
    ]
    return batch_z(xp, sum(each[1:], each[0]), groups.counted)

"""Whose log-probs an objective needs: decides whether a split group costs an extra forward pass."""

from __future__ import annotations

from functools import lru_cache

import torch

import tpo
from tpo.objectives import Objective

_SHAPE = (2, 4, 3)
_SPREADS = (0.05, 0.5, 3.0)


@lru_cache
def coupled(objective: Objective, updated: bool) -> bool:
    """True where a candidate's coefficients move with the log-probs of another candidate.

    Found by trial on small random groups, so that it holds for objectives from outside the library too. At
    the rollout snapshot (`updated=False`) policy and snapshot move together. A ratio score is not coupled
    there: all log-ratios are 0 whatever the log-probs. After an update it is.
    """
    for seed, spread in enumerate(_SPREADS):
        draw = torch.Generator().manual_seed(seed)

        def normal(spread: float = spread, draw: torch.Generator = draw) -> torch.Tensor:
            return spread * torch.randn(_SHAPE, generator=draw, dtype=torch.float64)

        old, ref, scores = normal() - 1, normal() - 1, normal()
        rewards = getattr(objective, "reward_weights", ())
        scores = scores[..., :1].repeat(1, 1, len(rewards)) if rewards else scores[..., 0]
        new = old + 0.1 * normal() if updated else old
        moved = torch.zeros(_SHAPE, dtype=torch.float64)
        moved[0, 0] = 0.1 * normal()[0, 0]
        before = _coefficients(objective, new, old, scores, ref)
        after = _coefficients(objective, new + moved, old if updated else old + moved, scores, ref)
        others = (before - after).reshape(-1, _SHAPE[-1])[1:]
        if others.abs().max() > 1e-12:
            return True
    return False


def _coefficients(
    objective: Objective,
    new: torch.Tensor,
    old: torch.Tensor,
    scores: torch.Tensor,
    ref: torch.Tensor,
) -> torch.Tensor:
    group = tpo.Group(log_probs_old=old, scores=scores, log_probs_ref=ref)
    found: torch.Tensor = objective.coefficients(new, objective.prepare(group))
    return found

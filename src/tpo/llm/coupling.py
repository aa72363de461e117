"""Whose log-probs an objective needs: decides whether a split group costs an extra forward pass."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

import torch

import tpo
from tpo.llm.trials import coefficients, draws, scores_for
from tpo.objectives import Objective

_SHAPE = (2, 4, 3)


@lru_cache
def coupled(objective: Objective, updated: bool) -> bool:
    """True where a candidate's coefficients move with the log-probs of another candidate.

    Found by trial on small random groups. At the rollout snapshot (`updated=False`) policy and snapshot move
    together. A ratio score is not coupled there: all log-ratios are 0 whatever the log-probs. After an update
    it is.
    """
    for _, normal in draws(_SHAPE):
        old, ref, scores = normal() - 1, normal() - 1, scores_for(objective, normal()[..., 0])
        new = old + 0.1 * normal() if updated else old
        first = torch.zeros(_SHAPE, dtype=torch.float64)
        first[0, 0] = 0.1 * normal()[0, 0]
        group = tpo.Group(log_probs_old=old, scores=scores, log_probs_ref=ref)
        moved = group if updated else replace(group, log_probs_old=old + first)
        before = coefficients(objective, group, new)
        after = coefficients(objective, moved, new + first)
        if (before - after).reshape(-1, _SHAPE[-1])[1:].abs().max() > 1e-12:
            return True
    return False

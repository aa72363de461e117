"""Small random groups to try an objective on: what is found by trial holds for those from outside too."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch

import tpo
from tpo.objectives import Objective

Tensor = torch.Tensor
SPREADS = (0.05, 0.5, 3.0)
"""Standard deviations of log-probs and scores, one trial each."""


def draws(shape: tuple[int, ...]) -> Iterator[tuple[torch.Generator, Callable[[], Tensor]]]:
    """Per trial a generator, and a function that draws float64 normals of that shape from it."""
    for seed, spread in enumerate(SPREADS):
        draw = torch.Generator().manual_seed(seed)

        def normal(spread: float = spread, draw: torch.Generator = draw) -> Tensor:
            return spread * torch.randn(shape, generator=draw, dtype=torch.float64)

        yield draw, normal


def scores_for(objective: Objective, scores: Tensor) -> Tensor:
    """[B, K], or [B, K, R] where the objective weighs R rewards."""
    rewards = getattr(objective, "reward_weights", ())
    return scores[..., None].repeat(1, 1, len(rewards)) if rewards else scores


def coefficients(objective: Objective, group: tpo.Group, log_probs: Tensor) -> Tensor:
    """[B, K, T] of a group at these log-probs."""
    found: Tensor = objective.coefficients(log_probs, objective.prepare(group))
    return found

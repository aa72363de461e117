"""Whether an objective needs every token's log-prob, or one number per candidate says it all.

A rollout batch of 10^5 completions of 10^4 tokens has 10^9 log-probs, and [B, K, T] arrays of that size are
several times the memory. Most objectives read no more than the sum or the mean over a candidate's tokens and
give all of them the same coefficient; those are computed on [B, K, 1].
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from itertools import product
from typing import NamedTuple

import torch

import tpo
from tpo.llm.trials import coefficients, draws, scores_for
from tpo.objectives import Objective

Tensor = torch.Tensor

READS = ("nothing", "sum", "mean")
"""What is read of a candidate's log-probs."""
_SHAPE = (6, 4, 5)


class Condensed(NamedTuple):
    """How an objective's coefficients on [B, K, T] follow from those on [B, K, 1]."""

    reads: str
    """one of READS: what stands for the candidate's log-probs"""
    shared: bool
    """whether a candidate's coefficient is divided among its tokens, or given to each of them"""

    def per_candidate(self, log_probs: Tensor, lengths: Tensor) -> Tensor:
        """[...] what stands for a candidate, from the sum over its tokens and their number."""
        if self.reads == "nothing":
            return torch.zeros_like(log_probs)
        return log_probs / lengths if self.reads == "mean" else log_probs

    def per_token(self, c: Tensor, lengths: Tensor) -> Tensor:
        """[...] the coefficient of each of a candidate's tokens."""
        return c / lengths if self.shared else c


@lru_cache
def condensed(objective: Objective, updated: bool) -> Condensed | None:
    """The condensed form of an objective, or None where it needs every token.

    Found by trial on small random groups. At the rollout snapshot (`updated=False`) the policy is the snapshot;
    afterwards the two differ.
    """
    trials = [_Trial(draw, normal, updated) for draw, normal in draws(_SHAPE)]
    wanted = [trial.dense(objective) for trial in trials]
    for form in (Condensed(*choice) for choice in product(READS, (False, True))):
        found = (trial.condensed(objective, form) for trial in trials)
        if all(
            torch.allclose(x, y, rtol=1e-9, atol=1e-12) for x, y in zip(found, wanted, strict=True)
        ):
            return form
    return None


class _Trial:
    """A random batch of ragged groups: one without spread in its scores, one with a candidate left out."""

    def __init__(self, draw: torch.Generator, normal: Callable[[], Tensor], updated: bool) -> None:
        lengths = torch.randint(1, _SHAPE[2] + 1, _SHAPE[:2], generator=draw)
        self.mask = torch.arange(_SHAPE[2]) < lengths[..., None]
        self.lengths = lengths.double()
        self.scores = normal()[..., 0]
        self.scores[0] = 1.0
        self.valid = torch.ones(_SHAPE[:2], dtype=torch.bool)
        self.valid[1, 2] = False
        self.old = torch.where(self.mask, normal() - 1, 0.0)
        moved = 0.1 * normal() if updated else torch.zeros(_SHAPE, dtype=torch.float64)
        self.new = torch.where(self.mask, self.old + moved, 0.0)

    def dense(self, objective: Objective) -> Tensor:
        scores = scores_for(objective, self.scores)
        group = tpo.Group(self.old, scores, mask=self.mask, valid=self.valid)
        return coefficients(objective, group, self.new)

    def condensed(self, objective: Objective, form: Condensed) -> Tensor:
        old, new = (
            form.per_candidate(x.sum(-1), self.lengths)[..., None] for x in (self.old, self.new)
        )
        group = tpo.Group(old, scores_for(objective, self.scores), valid=self.valid)
        c = form.per_token(coefficients(objective, group, new)[..., 0], self.lengths)
        return torch.where(self.mask, c[..., None], 0.0)

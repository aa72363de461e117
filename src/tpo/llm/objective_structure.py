"""How an objective's coefficients depend on log-probs: on those of other candidates, and of single tokens.

Found by trial on small random groups, so that it holds for an objective from outside the library too.

A rollout batch of 10^5 completions of 10^4 tokens has 10^9 log-probs, and [B, K, T] arrays of that size are
several times the memory. Most objectives read no more than the sum or the mean over a candidate's tokens and
give all of them the same coefficient; those are computed on [B, K, 1].
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import lru_cache
from itertools import product
from typing import NamedTuple

import torch

import tpo
from tpo.objectives import Objective

Tensor = torch.Tensor
DEVIATIONS = (0.05, 0.5, 3.0)
"""Standard deviations of log-probs and scores, one trial each."""
READS = ("nothing", "sum", "mean")
"""What an objective may read of a candidate's log-probs."""
_GROUP_TRIAL_SHAPE = (2, 4, 3)
_REDUCTION_TRIAL_SHAPE = (6, 4, 5)


def fits_micro_batch(objective: Objective, updated: bool, whole_groups: bool) -> bool:
    """Whether the coefficients of a micro-batch follow from the log-probs of its own rows alone."""
    if objective.traits.whole_batch:
        return False
    if whole_groups:
        return not _depends(objective, updated, first_other=_GROUP_TRIAL_SHAPE[1])
    return not needs_whole_groups(objective, updated)


def needs_whole_groups(objective: Objective, updated: bool) -> bool:
    """True where a candidate's coefficients depend on the log-probs of another candidate.

    Found by trial on small random groups. At the rollout snapshot (`updated=False`) policy and snapshot change
    together. A ratio score needs no whole groups there: all log-ratios are 0 whatever the log-probs. After an
    update it does. A correction that removes candidates needs whole groups, however rare that is.
    """
    if getattr(objective, "drops_candidates", False) or objective.traits.whole_batch:
        return True
    return _depends(objective, updated, first_other=1)


@lru_cache
def _depends(objective: Objective, updated: bool, first_other: int) -> bool:
    """Whether the first candidate's log-probs change a coefficient of the candidates from `first_other` on."""
    for _, normal in random_draws(_GROUP_TRIAL_SHAPE):
        old, ref, scores = normal() - 1, normal() - 1, scores_for(objective, normal()[..., 0])
        new = old + 0.1 * normal() if updated else old
        change = torch.zeros(_GROUP_TRIAL_SHAPE, dtype=torch.float64)  # of one candidate alone
        change[0, 0] = 0.1 * normal()[0, 0]
        group = tpo.Groups(old, scores, log_probs_ref=ref, **extra_fields(objective, old))
        changed = group if updated else replace(group, log_probs_old=old + change)
        before = coefficients(objective, group, new)
        after = coefficients(objective, changed, new + change)
        others = (before - after).reshape(-1, _GROUP_TRIAL_SHAPE[-1])[first_other:]
        if others.abs().max() > 1e-12:
            return True
    return False


class Reduction(NamedTuple):
    """How an objective's coefficients on [B, K, T] follow from those on [B, K, 1]."""

    reads: str
    """one of READS: the number that replaces the candidate's log-probs"""
    shared: bool
    """whether a candidate's coefficient is divided among its tokens, or given to each of them"""

    def per_candidate(self, log_probs: Tensor, lengths: Tensor) -> Tensor:
        """[...] a candidate's number, from the sum over its tokens and their count."""
        if self.reads == "nothing":
            return torch.zeros_like(log_probs)
        return log_probs / lengths if self.reads == "mean" else log_probs

    def per_token(self, c: Tensor, lengths: Tensor) -> Tensor:
        """[...] the coefficient of each of a candidate's tokens."""
        return c / lengths if self.shared else c


@lru_cache
def reduction(objective: Objective, updated: bool) -> Reduction | None:
    """The reduction of an objective, or None where it needs every token.

    Found by trial on small random groups. At the rollout snapshot (`updated=False`) the policy is the snapshot;
    afterwards the two differ. An objective that compares the tokens of a batch needs every one: in a few small
    groups it may select none, so a trial does not show it.
    """
    if objective.traits.whole_batch and objective.traits.tokens:
        return None
    trials = [
        _Trial(generator, normal, updated)
        for generator, normal in random_draws(_REDUCTION_TRIAL_SHAPE)
    ]
    exact = [trial.dense(objective) for trial in trials]
    for candidate in (Reduction(*form) for form in product(READS, (False, True))):
        reduced = (trial.reduced(objective, candidate) for trial in trials)
        if all(
            torch.allclose(x, y, rtol=1e-9, atol=1e-12) for x, y in zip(reduced, exact, strict=True)
        ):
            return candidate
    return None


class _Trial:
    """A random batch of ragged groups: one with equal scores, one with a candidate that does not count."""

    def __init__(
        self, generator: torch.Generator, normal: Callable[[], Tensor], updated: bool
    ) -> None:
        B, K, T = _REDUCTION_TRIAL_SHAPE
        lengths = torch.randint(1, T + 1, (B, K), generator=generator)
        self.mask = torch.arange(T) < lengths[..., None]
        self.lengths = lengths.double()
        self.scores = normal()[..., 0]
        self.scores[0] = 1.0
        self.valid = torch.ones((B, K), dtype=torch.bool)
        self.valid[1, 2] = False
        self.old = torch.where(self.mask, normal() - 1, 0.0)
        change = 0.1 * normal() if updated else torch.zeros((B, K, T), dtype=torch.float64)
        self.new = torch.where(self.mask, self.old + change, 0.0)

    def dense(self, objective: Objective) -> Tensor:
        """[B, K, T] the coefficients, from the log-probs of every token."""
        scores = scores_for(objective, self.scores)
        extra = extra_fields(objective, self.old)
        group = tpo.Groups(self.old, scores, mask=self.mask, valid=self.valid, **extra)
        return coefficients(objective, group, self.new)

    def reduced(self, objective: Objective, reduction: Reduction) -> Tensor:
        """[B, K, T] the coefficients, from one number per candidate."""
        old, new = (
            reduction.per_candidate(x.sum(-1), self.lengths)[..., None]
            for x in (self.old, self.new)
        )
        extra = extra_fields(objective, old)
        group = tpo.Groups(old, scores_for(objective, self.scores), valid=self.valid, **extra)
        c = reduction.per_token(coefficients(objective, group, new)[..., 0], self.lengths)
        return torch.where(self.mask, c[..., None], 0.0)


def random_draws(
    shape: tuple[int, ...],
) -> Iterator[tuple[torch.Generator, Callable[[], Tensor]]]:
    """Per trial a generator, and a function that draws float64 normals of that shape from it."""
    for seed, deviation in enumerate(DEVIATIONS):
        generator = torch.Generator().manual_seed(seed)

        def normal(deviation: float = deviation, generator: torch.Generator = generator) -> Tensor:
            return deviation * torch.randn(shape, generator=generator, dtype=torch.float64)

        yield generator, normal


def scores_for(objective: Objective, scores: Tensor) -> Tensor:
    """[B, K], or [B, K, R] where the objective weighs R rewards."""
    rewards = getattr(objective, "reward_weights", ())
    return scores[..., None].repeat(1, 1, len(rewards)) if rewards else scores


def extra_fields(objective: Objective, old: Tensor) -> dict[str, Tensor]:
    """Further fields of `Groups` that the objective needs."""
    known = {"baseline": old.new_full(old.shape[:1], 0.25), "log_probs_rollout": 1.1 * old}
    found = {name: known[name] for name in objective.needs}
    if objective.uses_progress:
        found["progress"] = old.new_full(old.shape[:1], 0.5)
    return found


def coefficients(objective: Objective, group: tpo.Groups, log_probs: Tensor) -> Tensor:
    """[B, K, T] of a group at these log-probs."""
    c: Tensor = objective.coefficients(log_probs, objective.prepare(group))
    return c

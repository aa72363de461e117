"""Rollouts: the rows of a rollout batch as verl stores them, their groups, and the coefficient of every token.

Rows come in any order and length, with padding rows between them. Only log-probs, masks and coefficients have
a number per token, and they are kept without padding, row after row. [B, K, T] is made only for objectives that
read single tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch

import tpo
from tpo.llm.objective_structure import Reduction, reduction
from tpo.objectives import Objective
from tpo.objectives.critics import value_targets

Tensor = torch.Tensor
Numbers = npt.NDArray[np.int64]

PADDING = "pad"
"""The uid of verl's padding rows starts with this."""


class Ragged(NamedTuple):
    """Numbers of N rows of different lengths, one row after the other."""

    values: Tensor
    """[tokens]"""
    starts: Tensor
    """[N + 1] where each row starts, and where the last one ends"""

    @property
    def lengths(self) -> Tensor:
        """[N] the length of each row."""
        return self.starts.diff()

    def row(self, i: int) -> Tensor:
        """[length] the numbers of one row, as a view."""
        return self.values[int(self.starts[i]) : int(self.starts[i + 1])]

    def sums(self) -> Tensor:
        """[N] float64: the sum of each row, computed pairwise in the precision of the numbers."""
        total = np.zeros(len(self.starts) - 1)
        filled = self.lengths.numpy() > 0  # reduceat gives an empty row the next row's first number
        if filled.any():
            at = self.starts.numpy()[:-1][filled]
            total[filled] = np.add.reduceat(self.values.numpy(), at)
        return torch.from_numpy(total)

    def repeated(self, per_row: Tensor) -> Ragged:
        """A number per row [N] repeated for each of its tokens, float32."""
        starts = self.starts.tolist()
        values = np.empty(starts[-1], np.float32)
        for (start, end), number in zip(pairwise(starts), per_row.tolist(), strict=True):
            values[start:end] = number
        return Ragged(torch.from_numpy(values), self.starts)


class Places(NamedTuple):
    """Which of G groups of up to K candidates each row of a batch belongs to.

    A candidate is a session of an agent loop, usually one row. If a session has several outputs, the candidate
    has the tokens of all of them, one row after the other, and the score of the last.
    """

    slots: Tensor
    """[N] the slot of each row, g·K + k, or -1 for padding"""
    G: int
    K: int
    filled: Tensor
    """[C] the slot of each candidate"""
    last: Tensor
    """[C] its last row"""


def places(uids: Sequence[str], keys: Sequence[str]) -> Places:
    """The places of rows: a uid names a group, and in verl's keys `uid_session` names a candidate."""
    split = [key.rpartition("_") for key in keys]
    if not all(output.isdigit() for _, _, output in split):
        raise ValueError("keys are not uid_session_output, as those of verl's rows are")
    group = _numbered(uids)
    candidate = _numbered([session for session, _, _ in split])
    order = np.argsort([int(output) for _, _, output in split], kind="stable")
    last, group_of = np.zeros((2, candidate.max(initial=-1) + 1), np.int64)
    last[candidate[order]] = order  # of several rows, the highest output is written last
    group_of[candidate] = group
    real = np.array([not uids[row].startswith(PADDING) for row in last.tolist()], bool)
    kept = np.unique(group_of[real])
    g = np.searchsorted(kept, group_of)
    rank = _rank_within(group_of)
    K = int(rank[real].max(initial=0)) + 1
    slot = np.where(real, g * K + rank, -1)
    return Places(
        torch.from_numpy(slot[candidate]),
        len(kept),
        K,
        torch.from_numpy(slot[real]),
        torch.from_numpy(last[real]),
    )


def _numbered(names: Sequence[str]) -> Numbers:
    """[N] a number for each name: 0 for the first name, 1 for the next different one, and so on."""
    seen: dict[str, int] = {}
    return np.array([seen.setdefault(name, len(seen)) for name in names], np.int64)


def _rank_within(group_of: Numbers) -> Numbers:
    """[C] for each candidate, how many of its group come before it."""
    order = np.argsort(group_of, kind="stable")
    sizes = np.bincount(group_of)
    rank = np.empty_like(group_of)
    rank[order] = np.arange(len(group_of)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    return rank


@dataclass
class Rollouts:
    """A scored rollout batch of N rows, and the rollout snapshot."""

    objective: Objective
    places: Places
    scores: Tensor
    """[N] per row; NaN where a completion could not be scored: it is left out of its group"""
    mask: Ragged
    """not 0 on tokens that the policy chose"""
    old: Ragged | None = None
    """log-probs under the snapshot; None if `needs_log_probs` says that they are not needed"""
    values: Ragged | None = None
    """a critic's value before each token, for objectives that use them"""

    def __post_init__(self) -> None:
        self._slots = self.places.slots
        self._rows = self._slots >= 0
        chosen = self.mask.sums()
        partly = self._rows & (chosen > 0) & (chosen < self.mask.lengths)
        self._partly = partly.nonzero()[:, 0].tolist()
        tokens = self._summed(chosen)
        self.lengths = tokens.clamp(min=1)
        self.total, self.valid = self._candidate_scores(tokens > 0)

    @property
    def groups(self) -> tpo.Groups:
        """Scores and valid candidates of all groups, [G, K, 1], with zeros as log-probs."""
        return self._groups(torch.zeros_like(self.total))

    def coefficients(self, log_probs: Ragged | None = None) -> Ragged:
        """dL/d log pi of every token; `log_probs` are those of the current policy, None at the snapshot."""
        form = reduction(self.objective, updated=log_probs is not None)
        if form is None:
            return self._token_level(log_probs)
        old = self._candidate_log_probs(form, self.old)
        new = old if log_probs is None else self._candidate_log_probs(form, log_probs)
        prepared = self.objective.prepare(self._groups(old))
        c = self.objective.coefficients(new[..., None], prepared)[..., 0]
        c = form.per_token(c, self.lengths).reshape(-1)
        return self._on_tokens(torch.where(self._rows, c[self._slots], 0.0))

    def _candidate_log_probs(self, form: Reduction, log_probs: Ragged | None) -> Tensor:
        """[G, K] what the objective reads of a candidate's log-probs: their sum, their mean, or nothing (0)."""
        if form.reads == "nothing":
            return torch.zeros_like(self.total)
        assert log_probs is not None
        return form.per_candidate(self._summed(self._row_sums(log_probs)), self.lengths)

    def _row_sums(self, x: Ragged) -> Tensor:
        """[N] the sum of each row over the tokens that the policy chose; few rows have others."""
        total = x.sums()
        for row in self._partly:
            total[row] = x.row(row)[self.mask.row(row) != 0].double().sum()
        return total

    def _on_tokens(self, per_row: Tensor) -> Ragged:
        """A number per row [N] on each token that the policy chose, 0 on others."""
        found = self.mask.repeated(per_row)
        for row in self._partly:
            found.row(row)[self.mask.row(row) == 0] = 0.0
        return found

    def _groups(self, log_probs_old: Tensor) -> tpo.Groups:
        return tpo.Groups(log_probs_old[..., None], self.total, valid=self.valid)

    def _summed(self, per_row: Tensor) -> Tensor:
        """[G, K] the sum over the rows of each candidate."""
        flat = torch.zeros(self.places.G * self.places.K, dtype=torch.float64)
        flat.index_add_(0, self._slots[self._rows], per_row[self._rows])
        return flat.reshape(self.places.G, self.places.K)

    def _candidate_scores(self, has_tokens: Tensor) -> tuple[Tensor, Tensor]:
        """[G, K] the score of each candidate, and whether the candidate is valid."""
        G, K, last, filled = self.places.G, self.places.K, self.places.last, self.places.filled
        total = torch.full((G * K,), torch.nan, dtype=torch.float64)
        total[filled] = self.scores[last].double()
        valid = total.isfinite() & has_tokens.reshape(-1)
        return torch.where(valid, total, 0.0).reshape(G, K), valid.reshape(G, K)

    def _token_level(self, log_probs: Ragged | None) -> Ragged:
        """The coefficients, computed on [G, K, T], for objectives that read single tokens."""
        starts, T = self._token_starts()
        group = self._token_groups(starts, T)
        new = group.log_probs_old if log_probs is None else self._padded(log_probs, starts, T)
        c = self.objective.coefficients(new, self.objective.prepare(group))
        return self._in_rows(c.reshape(-1, T), starts)

    def returns(self) -> Ragged:
        """What the critic's values are fitted to, on every token."""
        starts, T = self._token_starts()
        targets = value_targets(self.objective, self._token_groups(starts, T))
        return self._in_rows(targets.reshape(-1, T), starts)

    def _token_groups(self, starts: list[int], T: int) -> tpo.Groups:
        """[G, K, T] groups with the log-probs of every token, and the values if there are any."""
        assert self.old is not None
        old = self._padded(self.old, starts, T)
        values = None if self.values is None else self._padded(self.values, starts, T).to(old.dtype)
        mask = self._padded(self.mask, starts, T) != 0
        return tpo.Groups(old, self.total.to(old.dtype), mask=mask, valid=self.valid, values=values)

    def _in_rows(self, c: Tensor, starts: list[int]) -> Ragged:
        """[G·K, T] numbers of candidates as those of rows."""
        values = torch.zeros(len(self.mask.values), dtype=torch.float32)
        for row, slot in enumerate(self.places.slots.tolist()):
            if slot >= 0:
                own = Ragged(values, self.mask.starts).row(row)
                own.copy_(c[slot, starts[row] : starts[row] + len(own)])
        return Ragged(values, self.mask.starts)

    def _token_starts(self) -> tuple[list[int], int]:
        """Where the tokens of each row start within its candidate, and the length of the longest candidate."""
        used = [0] * (self.places.G * self.places.K)
        starts = []
        for slot, length in zip(
            self.places.slots.tolist(), self.mask.lengths.tolist(), strict=True
        ):
            starts.append(0 if slot < 0 else used[slot])
            if slot >= 0:
                used[slot] += length
        return starts, max(used, default=0) or 1

    def _padded(self, x: Ragged, starts: list[int], T: int) -> Tensor:
        """[G, K, T] the numbers of each candidate, then zeros; `starts` are those of `_token_starts`."""
        dense = torch.zeros(self.places.G * self.places.K, T, dtype=x.values.dtype)
        for row, slot in enumerate(self.places.slots.tolist()):
            if slot >= 0:
                own = x.row(row)
                dense[slot, starts[row] : starts[row] + len(own)] = own
        return dense.reshape(self.places.G, self.places.K, T)


def needs_log_probs(objective: Objective, updates: int) -> bool:
    """Whether the controller needs the log-probs under the snapshot."""
    form = reduction(objective, updated=False)
    return updates > 1 or form is None or form.reads != "nothing"

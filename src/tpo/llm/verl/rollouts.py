"""Rollouts: the rows of a rollout batch as verl lays them out, their groups, and every token's coefficient.

Rows come in any order, of any length, with padding rows between them. Nothing here is of a row's size but its
log-probs, its mask and its coefficients, and those stand end to end: [B, K, T] is made only for objectives that
look at single tokens.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch

import tpo
from tpo.llm.condensing import Condensed, condensed
from tpo.objectives import Objective

Tensor = torch.Tensor

PADDING = "pad"
"""verl's padding rows have a uid that starts with this."""
BLOCK = 1 << 24
"""Tokens worked on at a time: bounds what is needed besides the batch itself."""


class Ragged(NamedTuple):
    """Numbers of N rows of different lengths, end to end."""

    values: Tensor
    """[tokens]"""
    starts: Tensor
    """[N + 1] where each row starts, and the end"""

    @property
    def lengths(self) -> Tensor:
        """[N]"""
        return self.starts.diff()

    def row(self, i: int) -> Tensor:
        """[length] the numbers of one row."""
        return self.values[int(self.starts[i]) : int(self.starts[i + 1])]

    def blocks(self) -> Iterator[tuple[slice, slice]]:
        """Rows and their tokens, about BLOCK tokens at a time and at least one row."""
        first, n = 0, len(self.starts) - 1
        while first < n:
            end = int(torch.searchsorted(self.starts, self.starts[first] + BLOCK, right=True)) - 1
            end = max(end, first + 1)
            yield slice(first, end), slice(int(self.starts[first]), int(self.starts[end]))
            first = end

    def sums(self, mask: Ragged | None = None) -> Tensor:
        """[N] float64 sums over each row, over its unmasked entries with a mask."""
        total = torch.zeros(len(self.starts) - 1, dtype=torch.float64)
        for rows, tokens in self.blocks():
            values = self.values[tokens].double()
            if mask is not None:
                values = torch.where(mask.values[tokens] != 0, values, 0.0)
            total[rows] = torch.segment_reduce(
                values, "sum", lengths=self.lengths[rows], unsafe=True
            )
        return total

    def spread(self, per_row: Tensor) -> Ragged:
        """A number per row [N] on each of its unmasked tokens, where this is the mask."""
        values = torch.zeros(len(self.values), dtype=torch.float32)
        for rows, tokens in self.blocks():
            repeated = per_row[rows].float().repeat_interleave(self.lengths[rows])
            values[tokens] = torch.where(self.values[tokens] != 0, repeated, 0.0)
        return Ragged(values, self.starts)


class Places(NamedTuple):
    """Where the rows of a batch stand among G groups of up to K candidates.

    A candidate is a session of an agent loop, usually one row. Where a session has several outputs, their
    tokens are the candidate's, one row after the other, and its score is the last output's.
    """

    slots: list[int]
    """per row: g·K + k, or -1 for padding"""
    G: int
    K: int
    last: list[int]
    """the last row of each candidate, in the order of `filled`"""
    filled: list[int]
    """the slots that hold a candidate"""


def places(uids: Sequence[str], keys: Sequence[str] | None = None) -> Places:
    """Groups by uid; sessions by verl's keys `uid_session_output`, or a session per row without them."""
    groups: dict[str, dict[str, tuple[int, int]]] = {}
    where: list[tuple[str, str] | None] = []
    for row, uid in enumerate(uids):
        if uid.startswith(PADDING):
            where.append(None)
            continue
        session, output = _session(keys[row]) if keys is not None else (str(row), 0)
        seen = groups.setdefault(uid, {})
        if session not in seen or seen[session][0] < output:
            seen[session] = (output, row)
        where.append((uid, session))
    K = max((len(sessions) for sessions in groups.values()), default=1)
    slot = {
        (uid, session): g * K + k
        for g, (uid, sessions) in enumerate(groups.items())
        for k, session in enumerate(sessions)
    }
    last = [row for sessions in groups.values() for _, row in sessions.values()]
    return Places(
        [-1 if at is None else slot[at] for at in where],
        len(groups),
        K,
        last,
        list(slot.values()),
    )


def _session(key: str) -> tuple[str, int]:
    parts = key.rsplit("_", 2)
    if len(parts) != 3 or not parts[2].isdigit():
        raise ValueError(f"key {key!r} of a row is not uid_session_output, as verl's are")
    return parts[1], int(parts[2])


@dataclass
class Rollouts:
    """A scored rollout batch of N rows, and the snapshot that its update starts from."""

    objective: Objective
    places: Places
    scores: Tensor
    """[N] per row; NaN where a completion could not be scored: it is left out of its group"""
    mask: Ragged
    """not 0 on tokens that the policy chose"""
    old: Ragged | None = None
    """log-probs under the snapshot; None where `needs_log_probs` says that they are not read"""

    def __post_init__(self) -> None:
        self._slots = torch.tensor(self.places.slots, dtype=torch.int64)
        self._rows = self._slots >= 0
        self.lengths = self._added(self.mask.sums(self.mask)).clamp(min=1)
        self.total, self.valid = self._scored()

    @property
    def group(self) -> tpo.Group:
        """Scores and who counts, [G, K, 1], with zeros for log-probs."""
        return self._group(torch.zeros_like(self.total))

    def coefficients(self, log_probs: Ragged | None = None) -> Ragged:
        """dL/d log pi of every token; `log_probs` of the policy as it is now, None at the snapshot."""
        form = condensed(self.objective, updated=log_probs is not None)
        if form is None:
            return self._dense(log_probs)
        old = self._stand_in(form, self.old)
        new = old if log_probs is None else self._stand_in(form, log_probs)
        signal = self.objective.prepare(self._group(old))
        c = self.objective.coefficients(new[..., None], signal)[..., 0]
        c = form.per_token(c, self.lengths).reshape(-1)
        return self.mask.spread(torch.where(self._rows, c[self._slots], 0.0))

    def _stand_in(self, form: Condensed, log_probs: Ragged | None) -> Tensor:
        """[G, K] what the objective reads of each candidate's log-probs."""
        if form.reads == "nothing":
            return torch.zeros_like(self.total)
        assert log_probs is not None
        return form.per_candidate(self._added(log_probs.sums(self.mask)), self.lengths)

    def _group(self, log_probs_old: Tensor) -> tpo.Group:
        return tpo.Group(log_probs_old[..., None], self.total, valid=self.valid)

    def _added(self, per_row: Tensor) -> Tensor:
        """[G, K] the sum over a candidate's rows."""
        flat = torch.zeros(self.places.G * self.places.K, dtype=torch.float64)
        flat.index_add_(0, self._slots[self._rows], per_row[self._rows])
        return flat.reshape(self.places.G, self.places.K)

    def _scored(self) -> tuple[Tensor, Tensor]:
        """[G, K] the score of each candidate, and whether it counts."""
        G, K, last, filled = self.places.G, self.places.K, self.places.last, self.places.filled
        total = torch.full((G * K,), torch.nan, dtype=torch.float64)
        total[filled] = self.scores[last].double()
        has_tokens = self._added(self.mask.sums(self.mask)).reshape(-1) > 0
        valid = total.isfinite() & has_tokens
        return torch.where(valid, total, 0.0).reshape(G, K), valid.reshape(G, K)

    def _dense(self, log_probs: Ragged | None) -> Ragged:
        """By way of [G, K, T], for objectives that look at single tokens."""
        assert self.old is not None
        starts, T = self._token_starts()
        mask = self._padded(self.mask, starts, T) != 0
        old = self._padded(self.old, starts, T)
        new = old if log_probs is None else self._padded(log_probs, starts, T)
        group = tpo.Group(old, self.total.to(old.dtype), mask=mask, valid=self.valid)
        c = self.objective.coefficients(new, self.objective.prepare(group)).reshape(-1, T)
        values = torch.zeros(len(self.mask.values), dtype=torch.float32)
        for row, slot in enumerate(self.places.slots):
            if slot >= 0:
                own = Ragged(values, self.mask.starts).row(row)
                own.copy_(c[slot, starts[row] : starts[row] + len(own)])
        return Ragged(values, self.mask.starts)

    def _token_starts(self) -> tuple[list[int], int]:
        """Where each row's tokens stand within its candidate, and how long the longest candidate is."""
        used = [0] * (self.places.G * self.places.K)
        starts = []
        for slot, length in zip(self.places.slots, self.mask.lengths.tolist(), strict=True):
            starts.append(0 if slot < 0 else used[slot])
            if slot >= 0:
                used[slot] += length
        return starts, max(used, default=0) or 1

    def _padded(self, x: Ragged, starts: list[int], T: int) -> Tensor:
        """[G, K, T]"""
        dense = torch.zeros(self.places.G * self.places.K, T, dtype=x.values.dtype)
        for row, slot in enumerate(self.places.slots):
            if slot >= 0:
                own = x.row(row)
                dense[slot, starts[row] : starts[row] + len(own)] = own
        return dense.reshape(self.places.G, self.places.K, T)


def needs_log_probs(objective: Objective, updates: int) -> bool:
    """Whether the snapshot's log-probs are read on the controller at all."""
    form = condensed(objective, updated=False)
    return updates > 1 or form is None or form.reads != "nothing"

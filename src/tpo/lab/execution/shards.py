"""Piece: some seeds of a job, so that one job can keep several workers busy.

Seeds that are looped do not see each other, so any split gives the same bits; a seed that is alone in its
piece is told not to use the lanes of a run of one seed. Pieces lie in the store below
their job until all are finished; then they are joined, and nothing tells how the job was run.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tpo.storage.store import Snapshot, Store

if TYPE_CHECKING:
    from tpo.lab.studies.builders import Job
    from tpo.lab.training import Cell


@dataclass(frozen=True)
class Piece:
    """A job, or the same job with some of its seeds; where: its key in the store."""

    job: Job
    where: str

    lanes: int | None = None
    """As in `Pace`: one, where the whole job has several seeds, so that it rounds as the whole job would."""

    @property
    def seeds(self) -> int:
        return self.job.budget.seeds if hasattr(self.job, "budget") else 1


def pieces(job: Job, store: Store, parts: int = 1) -> list[Piece]:
    """The job in so many parts, or more: what an earlier run began stays as it was divided."""
    from tpo.lab.training import Cell

    whole = [Piece(job, job.key)]
    if not isinstance(job, Cell):
        return whole
    begun = sorted(store.parts(job.key))
    if not begun and (parts == 1 or _batched(store.checkpoint(job.key))):
        return whole
    budget = job.budget
    taken = {seed for first, count in begun for seed in range(first, first + count)}
    rest = [s for s in range(budget.first_seed, budget.first_seed + budget.seeds) if s not in taken]
    ranges = sorted([*begun, *_divided(rest, parts)])
    return [_piece(job, store, first, count) for first, count in ranges]


def _batched(saved: Snapshot | None) -> bool:
    """Is this the checkpoint of seeds that were computed together? Its first array holds the seeds."""
    return saved is not None and saved.state[0].ndim > 0


def _divided(seeds: Sequence[int], parts: int) -> list[tuple[int, int]]:
    """(first, count) of runs of consecutive seeds, none longer than its share."""
    found: list[tuple[int, int]] = []
    most = math.ceil(len(seeds) / parts)
    for seed in seeds:
        if found and sum(found[-1]) == seed and found[-1][1] < most:
            found[-1] = (found[-1][0], found[-1][1] + 1)
        else:
            found.append((seed, 1))
    return found


def _piece(cell: Cell, store: Store, first: int, count: int) -> Piece:
    some = replace(cell, budget=replace(cell.budget, first_seed=first, seeds=count))
    lanes = 1 if cell.budget.seeds > 1 else None
    return Piece(some, store.part(cell.key, first, count), lanes)


def checkpoint(piece: Piece, job: Job, store: Store) -> Snapshot | None:
    """Where the piece goes on: its own checkpoint, or its seeds of one of the whole job."""
    from tpo.lab.training import Cell

    own = store.checkpoint(piece.where)
    of_all = store.checkpoint(job.key) if own is None else None
    if of_all is None or piece.where == job.key:
        return own
    assert isinstance(job, Cell)
    assert isinstance(piece.job, Cell)
    first = piece.job.budget.first_seed - job.budget.first_seed
    rows = slice(first, first + piece.job.budget.seeds)
    each = len(of_all.state) // job.budget.seeds
    curves = {name: x[rows] for name, x in of_all.curves.items()}
    return Snapshot(of_all.episode, curves, of_all.state[rows.start * each : rows.stop * each])


def shares(jobs: Sequence[Job], size: int) -> list[int]:
    """In how many parts to run each job, so that none keeps a worker for over half of its fair share."""
    from tpo.lab.studies.cost import run_seconds

    seconds = [run_seconds(job) for job in jobs]
    most = sum(seconds) / (2 * size) or math.inf
    return [max(1, math.ceil(one / most)) for one in seconds]

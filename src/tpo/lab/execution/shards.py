"""Shard: some seeds of a job, so that several workers can share one job.

Seeds that run one after the other do not depend on each other, so any split gives the same bits. A shard with
one seed of several must not use data parallelism, which is for jobs of a single seed. The store keeps
shards below their job until all are finished. Then they are joined, and the result is that of an unsplit job.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tpo.lab.studies.cost import run_seconds
from tpo.lab.training import Cell
from tpo.storage.store import Snapshot, Store

if TYPE_CHECKING:
    from tpo.lab.studies.builders import Job


@dataclass(frozen=True)
class Shard:
    """A job, or the same job with some of its seeds; where: its key in the store."""

    job: Job
    where: str

    data_parallel_size: int | None = None
    """As in `Pace`: 1 if the whole job has several seeds, so that sums are rounded as in the whole job."""

    @property
    def seeds(self) -> int:
        return self.job.budget.seeds if hasattr(self.job, "budget") else 1


def job_shards(job: Job, store: Store, count: int = 1) -> list[Shard]:
    """The job in `count` shards or more: shards that an earlier run began are kept."""
    whole = [Shard(job, job.key)]
    if not isinstance(job, Cell):
        return whole
    begun = sorted(store.shards(job.key))
    if not begun and (count == 1 or _batched(store.checkpoint(job.key))):
        return whole
    budget = job.budget
    taken = {seed for first, size in begun for seed in range(first, first + size)}
    rest = [s for s in range(budget.first_seed, budget.first_seed + budget.seeds) if s not in taken]
    ranges = sorted([*begun, *_seed_ranges(rest, count)])
    return [_shard(job, store, first, size) for first, size in ranges]


def _batched(saved: Snapshot | None) -> bool:
    """Is this a checkpoint of seeds computed in one batch? Its first array holds the seeds."""
    return saved is not None and saved.state[0].ndim > 0


def _seed_ranges(seeds: Sequence[int], count: int) -> list[tuple[int, int]]:
    """(first, size) of ranges of consecutive seeds, none longer than its share."""
    found: list[tuple[int, int]] = []
    most = math.ceil(len(seeds) / count)
    for seed in seeds:
        if found and sum(found[-1]) == seed and found[-1][1] < most:
            found[-1] = (found[-1][0], found[-1][1] + 1)
        else:
            found.append((seed, 1))
    return found


def _shard(cell: Cell, store: Store, first: int, size: int) -> Shard:
    some = replace(cell, budget=replace(cell.budget, first_seed=first, seeds=size))
    data_parallel_size = 1 if cell.budget.seeds > 1 else None
    return Shard(some, store.shard_key(cell.key, first, size), data_parallel_size)


def checkpoint(shard: Shard, job: Job, store: Store) -> Snapshot | None:
    """What the shard resumes from: its own checkpoint, or its seeds of a checkpoint of the whole job."""
    own = store.checkpoint(shard.where)
    of_all = store.checkpoint(job.key) if own is None else None
    if of_all is None or shard.where == job.key:
        return own
    assert isinstance(job, Cell)
    assert isinstance(shard.job, Cell)
    first = shard.job.budget.first_seed - job.budget.first_seed
    rows = slice(first, first + shard.job.budget.seeds)
    each = len(of_all.state) // job.budget.seeds
    curves = {name: x[rows] for name, x in of_all.curves.items()}
    state = of_all.state[rows.start * each : rows.stop * each]
    return of_all._replace(curves=curves, state=state)


def shard_counts(jobs: Sequence[Job], size: int) -> list[int]:
    """Shards of each job, so that no shard takes more than half of a worker's fair share of the time."""
    seconds = [run_seconds(job) for job in jobs]
    most = sum(seconds) / (2 * size) or math.inf
    return [max(1, math.ceil(one / most)) for one in seconds]

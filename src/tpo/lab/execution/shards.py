"""Shards: several workers can share one job, each with some of its seeds.

Seeds that run one after the other do not depend on each other, so any split gives the same bits. A shard with
one seed of several must not use data parallelism, which is for jobs of a single seed. The store keeps
shards below their job until all are finished. Then they are joined, and the result is that of an unsplit job.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from tpo.lab.execution.jobs import Job, Shard
from tpo.lab.studies.builders import AnyCell
from tpo.lab.studies.cost import run_seconds
from tpo.lab.training import Cell
from tpo.storage.store import Snapshot, Store


def job_shards(job: Job, store: Store, count: int = 1) -> list[Shard]:
    """The job in `count` shards or more: shards that an earlier run began are kept."""
    whole, cell = [Shard(job, job.cell, job.key)], job.cell
    if not isinstance(cell, Cell):
        return whole
    begun = sorted(store.shards(job.key))
    if not begun and (count == 1 or _batched(store.checkpoint(job.key))):
        return whole
    budget = cell.budget
    taken = {seed for first, size in begun for seed in range(first, first + size)}
    rest = [s for s in range(budget.first_seed, budget.first_seed + budget.seeds) if s not in taken]
    ranges = sorted([*begun, *_seed_ranges(rest, count)])
    return [
        Shard(
            job,
            replace(cell, budget=replace(budget, first_seed=first, seeds=size)),
            store.shard_key(job.key, first, size),
            data_parallel_size=1 if budget.seeds > 1 else None,
        )
        for first, size in ranges
    ]


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


def checkpoint(shard: Shard, store: Store) -> Snapshot | None:
    """What the shard resumes from: its own checkpoint, or its seeds of a checkpoint of the whole job."""
    job = shard.job
    own = store.checkpoint(shard.where)
    of_all = store.checkpoint(job.key) if own is None else None
    if of_all is None or shard.where == job.key:
        return own
    assert isinstance(shard.cell, Cell)
    first = shard.cell.budget.first_seed - job.first_seed
    rows = slice(first, first + shard.seeds)
    each = len(of_all.state) // job.seeds
    curves = {name: x[rows] for name, x in of_all.curves.items()}
    state = of_all.state[rows.start * each : rows.stop * each]
    return of_all._replace(curves=curves, state=state)


def shard_counts(cells: Sequence[AnyCell], size: int) -> list[int]:
    """Shards of each, so that no shard takes more than half of a worker's fair share of the time."""
    seconds = [run_seconds(cell) for cell in cells]
    most = sum(seconds) / (2 * size) or math.inf
    return [max(1, math.ceil(one / most)) for one in seconds]

"""The estimated cost of a study: CPU time measured once on two cores, scaled to this machine."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tpo.declarations.study import Study

if TYPE_CHECKING:
    from tpo.lab.studies.builders import AnyCell
    from tpo.lab.training import Cell

COMPILE = {"transformer": 13.0, "other": 3.0}
"""CPU seconds to compile a run."""
PER_TOKEN = {"sequence": 1.4e-6, "single": 3e-6, "token": 3e-6}
"""CPU seconds per token through the transformer, forward; a gradient counts as three. By kind of
rollout: the same candidate of a group is computed once."""
PER_EPOCH = 1e-2
"""CPU seconds per epoch of a sequence method in addition: mostly the optimiser."""
PER_STEP = {"index": 3e-4, "features": 6e-4}
"""CPU seconds per step of a one-action method."""
REFERENCE = 22.0
"""The result of `_exponentials` on the reference machine of these rates (Xeon, two cores)."""


def machine_speed() -> float:
    """The speed of a core of this machine relative to the reference machine, by a short calculation."""
    return max(_exponentials() / REFERENCE, 1e-3)


def _exponentials(seconds: float = 0.1) -> float:
    """exp of 100,000 float32 per millisecond, the best of many tries."""
    x = np.random.default_rng(0).random(100_000, dtype=np.float32)
    best, end = 0.0, time.monotonic() + seconds
    while time.monotonic() < end:
        began = time.perf_counter()
        np.exp(x)
        best = max(best, 1e-3 / (time.perf_counter() - began))
    return best


def explanation(speed: float) -> str:
    """How the estimates are made."""
    return (
        f"Estimates for {os.cpu_count()} idle CPU cores, good to a factor of two: CPU time per token and "
        f"step as once measured on two cores, times {1 / speed:.2g} by a short calculation on this "
        "machine. Runs already in the store cost nothing."
    )


class Size(NamedTuple):
    """The number of runs, each over all seeds; and their seconds on the reference machine."""

    runs: int
    seconds: float


def size(study: Study, scale: str) -> Size:
    """Of a study at a scale; runs that occur twice take their time once."""
    from tpo.lab.execution.jobs import Request  # a cycle otherwise

    cells = [job.cell for job in Request(study, scale).jobs]
    return Size(len(cells), sum(map(job_seconds, {cell.key: cell for cell in cells}.values())))


def job_seconds(cell: AnyCell) -> float:
    """Seconds for one run with all its seeds, as many at a time as there are cores."""
    from tpo.lab.studies.computations import Mechanism
    from tpo.lab.training import Cell

    if isinstance(cell, Cell):
        kind = "transformer" if cell.task.length > 1 else "other"
        rounds = -(-cell.budget.seeds // (os.cpu_count() or 1))
        return COMPILE[kind] + rounds * run_seconds(cell) / cell.budget.seeds
    if isinstance(cell, Mechanism):
        return COMPILE["other"] + run_seconds(cell)
    return 0.0


def run_seconds(cell: AnyCell) -> float:
    """Seconds for all seeds of a run one after the other, without compiling."""
    from tpo.lab.studies.computations import Mechanism
    from tpo.lab.training import Cell

    if isinstance(cell, Cell):
        return cell.budget.seeds * cell.budget.episodes * episode_seconds(cell)
    if isinstance(cell, Mechanism):
        return cell.seeds * cell.episodes * PER_STEP["features"]
    return 0.0


def episode_seconds(cell: Cell) -> float:
    """Seconds per episode and seed, if all candidates of a group differ."""
    if cell.task.length == 1:
        return PER_STEP[cell.task.observes[0]]
    rollout, epochs = cell.method.rollout, cell.method.epochs
    streams = cell.budget.batch * rollout.shape(cell.task).streams
    tokens = (streams + cell.budget.batch) * cell.task.length
    width = getattr(cell.resolved_policy, "width", 64) * getattr(cell.resolved_policy, "layers", 2)
    critic = cell.resolved_critic
    own = 1 + 3 * critic.epochs if critic else 0
    work = tokens * (1 + 3 * epochs + own) * width / 128
    steps = epochs + (critic.epochs if critic else 0)
    return PER_EPOCH * steps + PER_TOKEN[rollout.kind] * work


def duration(seconds: float) -> str:
    """A duration as text, in one unit."""
    for unit, size in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 1.5 * size:
            return f"{seconds / size:.3g} {unit}"
    return f"{max(seconds, 1):.0f} s"

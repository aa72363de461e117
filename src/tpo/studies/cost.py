"""What a study will cost: rates measured once on two CPU cores, scaled to this machine."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import numpy as np

from tpo.studies.declare import Study

if TYPE_CHECKING:
    from tpo.studies.recipes import Job
    from tpo.training import Cell

COMPILE = {"transformer": 7.0, "other": 1.5}
"""Seconds to compile a run."""
PER_TOKEN = 4.0e-6
"""Seconds per token through the width-64 transformer, forward; a gradient counts as three."""
PER_EPISODE = 4e-3
"""Seconds per epoch of a sequence method beside that: the optimiser, mostly."""
PER_STEP = 4e-4
"""Seconds per step of a one-action method."""
CORES = 2
REFERENCE = 1.0
"""Products per millisecond of `_products` on the machine where these rates were measured."""


def machine_speed() -> float:
    """How fast this machine is beside the one the rates were measured on: a short matrix product."""
    return max(_products() / REFERENCE, 1e-3)


def _products(seconds: float = 0.2) -> float:
    """Products [1024, 64]·[64, 256] per millisecond, the best of a few tries."""
    rng = np.random.default_rng(0)
    a, b = (rng.random(shape, dtype=np.float32) for shape in ((1024, 64), (64, 256)))
    best, end = 0.0, time.monotonic() + seconds
    while time.monotonic() < end:
        began = time.perf_counter()
        for _ in range(10):
            a @ b
        best = max(best, 10 / (time.perf_counter() - began) / 1000)
    return best


def explanation(speed: float) -> str:
    """How the estimates come about."""
    return (
        f"Times are estimates for a CPU: rates measured on {CORES} idle cores, times {1 / speed:.2g} "
        "by a short matrix product on this machine. Runs already in the store cost nothing."
    )


def runs(study: Study, scale: str) -> int:
    """How many runs the scale has, each over all seeds."""
    return len(_jobs(study, scale))


def study_seconds(study: Study, scale: str) -> float:
    """Seconds on the reference machine; runs that occur twice in a study count once."""
    return sum(job_seconds(job) for job in {job.key: job for job in _jobs(study, scale)}.values())


def _jobs(study: Study, scale: str) -> list[Job]:
    from tpo.studies.runner import Request, plan

    return [planned.job for planned in plan(Request(study, scale))]


def job_seconds(job: Job) -> float:
    """Seconds for one run with all its seeds."""
    from tpo.studies.exact import Mechanism
    from tpo.training import Cell

    if isinstance(job, Cell):
        kind = "transformer" if job.task.length > 1 else "other"
        seeds = -(-job.budget.seeds // CORES)
        return COMPILE[kind] + seeds * job.budget.episodes * episode_seconds(job)
    if isinstance(job, Mechanism):
        return COMPILE["other"] + job.seeds * job.episodes * PER_STEP
    return 0.0


def episode_seconds(cell: Cell) -> float:
    """Seconds per episode and seed, as if no two candidates of a group were alike."""
    if cell.task.length == 1:
        return PER_STEP
    rollout, epochs = cell.method.rollout, cell.method.epochs
    streams = cell.budget.batch * rollout.shape(cell.task).streams
    tokens = (streams + cell.budget.batch) * cell.task.length
    width = getattr(cell.acting, "width", 64) * getattr(cell.acting, "layers", 2)
    work = tokens * (1 + 3 * epochs) * width / 128
    return PER_EPISODE * epochs + PER_TOKEN * work


def shown(seconds: float) -> str:
    """A duration in words of one unit."""
    for unit, size in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 1.5 * size:
            return f"{seconds / size:.3g} {unit}"
    return f"{max(seconds, 1):.0f} s"

"""The engine of several processes on this machine. They share its cores, or its one accelerator.

Numbers stay those of one process. XLA's sums on a CPU depend on how many threads share them, so every worker
opens as many threads as one process would, and only then keeps to its share of the cores.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence

from tpo.lab.execution.worker import LEAST_STEP, Bench
from tpo.processes import ProcessWorker, first_ready


class Processes:
    """So many jobs at a time, each in a process of its own."""

    splits = False

    def __init__(self, workers: int, save_every: float = 20.0) -> None:
        """Nothing is started before the first job."""
        self.size = workers
        self.save_every = save_every
        self.places: dict[int, ProcessWorker] = {}

    def hire(self) -> ProcessWorker:
        free = [i for i in range(self.size) if not self._alive(i)]
        worker = ProcessWorker(_bench, free[0], self.size, self.save_every)
        self.places[free[0]] = worker
        return worker

    def _alive(self, place: int) -> bool:
        return place in self.places and self.places[place].process.is_alive()

    def wait(
        self, workers: Sequence[ProcessWorker], timeout: float | None = None
    ) -> ProcessWorker | None:
        return first_ready(workers, timeout)

    def dismiss(self, worker: ProcessWorker) -> None:
        worker.end()

    def close(self) -> None:
        for worker in self.places.values():
            worker.end()
        self.places.clear()


def _bench(place: int, places: int, save_every: float) -> Bench:
    """The bench of a worker; `place` of `places` says which cores are its."""
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # a device has room for all
    _keep_to_a_share(place, places)
    return Bench(save_every, LEAST_STEP)


def _keep_to_a_share(place: int, places: int) -> None:
    """On a CPU, this worker's cores; beside an accelerator the host's cores are for whoever compiles."""
    import jax

    import tpo.lab.training  # noqa: F401  has JAX offer its devices, before it starts

    if jax.default_backend() != "cpu" or not hasattr(os, "sched_setaffinity"):
        return
    mine = share(sorted(os.sched_getaffinity(0)), place, places)
    for thread in os.listdir("/proc/self/task"):
        with contextlib.suppress(OSError):  # it ended meanwhile
            os.sched_setaffinity(int(thread), mine)


def share(cores: Sequence[int], place: int, places: int) -> set[int]:
    """The cores of one of so many workers: disjoint and of equal size as far as they suffice."""
    if places > len(cores):
        return {cores[place % len(cores)]}
    first, last = (i * len(cores) // places for i in (place, place + 1))
    return set(cores[first:last])

"""The engine of several processes on this machine. They share its cores, or its one accelerator.

The numbers are those of one process. On a CPU, XLA's sums depend on the number of threads. So every worker
first opens as many threads as one process would, and is then pinned to its share of the cores.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence

import jax

from tpo.lab.execution.worker import LEAST_STEP, Worker
from tpo.lab.training import Pace  # requests the data-parallel devices before JAX starts
from tpo.processes import ProcessWorker, first_ready


class Processes:
    """`workers` jobs at a time, each in a process of its own."""

    splits = False

    def __init__(self, workers: int, pace: Pace | None = None) -> None:
        """No process is started before the first job."""
        self.size = workers
        self.pace = pace
        self.slots: dict[int, ProcessWorker] = {}

    def start_worker(self) -> ProcessWorker:
        free = [i for i in range(self.size) if not self._alive(i)]
        worker = ProcessWorker(_pinned_worker, free[0], self.size, self.pace)
        self.slots[free[0]] = worker
        return worker

    def _alive(self, slot: int) -> bool:
        return slot in self.slots and self.slots[slot].process.is_alive()

    def wait(
        self, workers: Sequence[ProcessWorker], timeout: float | None = None
    ) -> ProcessWorker | None:
        return first_ready(workers, timeout)

    def stop_worker(self, worker: ProcessWorker) -> None:
        worker.end()

    def close(self) -> None:
        for worker in self.slots.values():
            worker.end()
        self.slots.clear()


def _pinned_worker(slot: int, slots: int, pace: Pace | None) -> Worker:
    """A worker on the cores of its slot; called in the worker's process."""
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # all workers share the device
    _pin_to_cores(slot, slots)
    return Worker(pace, LEAST_STEP)


def _pin_to_cores(slot: int, slots: int) -> None:
    """On a CPU, keep this process to its cores; with an accelerator, all cores serve whoever compiles."""
    if jax.default_backend() != "cpu" or not hasattr(os, "sched_setaffinity"):
        return
    mine = core_share(sorted(os.sched_getaffinity(0)), slot, slots)
    for thread in os.listdir("/proc/self/task"):
        with contextlib.suppress(OSError):  # it ended meanwhile
            os.sched_setaffinity(int(thread), mine)


def core_share(cores: Sequence[int], slot: int, slots: int) -> set[int]:
    """The cores of one of `slots` workers: disjoint and of equal size, if there are enough cores."""
    if slots > len(cores):
        return {cores[slot % len(cores)]}
    first, last = (i * len(cores) // slots for i in (slot, slot + 1))
    return set(cores[first:last])

"""The engine of several processes on this machine. They share its cores, or its one accelerator.

Numbers stay those of one process. XLA's sums on a CPU depend on how many threads share them, so every worker
opens as many threads as one process would, and only then keeps to its share of the cores.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import threading
from collections.abc import Iterator, Sequence
from multiprocessing.connection import Connection
from multiprocessing.connection import wait as wait_for
from typing import Any

from tpo.studies.engines import Lost
from tpo.studies.engines.bench import LEAST_STEP, Bench, answered


class ProcessWorker:
    """A bench in a process of its own, at the other end of a pipe."""

    def __init__(self, place: int, places: int, save_every: float) -> None:
        """Start the process; `place` of `places` says which cores are its."""
        context = multiprocessing.get_context("spawn")
        self.connection, theirs = context.Pipe()
        arguments = (theirs, place, places, save_every)
        self.process = context.Process(target=_serve, args=arguments, daemon=True)
        with _deaf():
            self.process.start()
        theirs.close()

    def send(self, method: str, *arguments: Any) -> None:
        with contextlib.suppress(OSError):  # a dead worker says so when it is asked for the answer
            self.connection.send((method, arguments))

    def receive(self) -> Any:
        try:
            return self.connection.recv()
        except (EOFError, OSError):
            self.end()
            code = self.process.exitcode or 0
            return Lost(f"killed by signal {-code}" if code < 0 else f"exit status {code}")

    def end(self) -> None:
        """Kill it; whatever it did since its last answer is gone."""
        self.connection.close()
        self.process.kill()
        self.process.join()


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
        worker = ProcessWorker(free[0], self.size, self.save_every)
        self.places[free[0]] = worker
        return worker

    def _alive(self, place: int) -> bool:
        return place in self.places and self.places[place].process.is_alive()

    def wait(
        self, workers: Sequence[ProcessWorker], timeout: float | None = None
    ) -> ProcessWorker | None:
        ready = wait_for([worker.connection for worker in workers], timeout)
        return next((worker for worker in workers if worker.connection in ready), None)

    def dismiss(self, worker: ProcessWorker) -> None:
        worker.end()

    def close(self) -> None:
        for worker in self.places.values():
            worker.end()
        self.places.clear()


@contextlib.contextmanager
def _deaf() -> Iterator[None]:
    """What is started meanwhile never hears Ctrl-C: its driver does, and tells it."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _serve(connection: Connection, place: int, places: int, save_every: float) -> None:
    """A worker's life: answer what is asked, until the driver is gone."""
    threading.Thread(target=_leave_with_the_driver, daemon=True).start()
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # a device has room for all
    _keep_to_a_share(place, places)
    bench = Bench(save_every, LEAST_STEP)
    with contextlib.suppress(EOFError, OSError):
        while True:
            method, arguments = connection.recv()
            connection.send(answered(getattr(bench, method), arguments))


def _leave_with_the_driver() -> None:
    driver = multiprocessing.parent_process()
    if driver:
        driver.join()
        os._exit(1)


def _keep_to_a_share(place: int, places: int) -> None:
    """On a CPU, this worker's cores; beside an accelerator the host's cores are for whoever compiles."""
    import jax

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

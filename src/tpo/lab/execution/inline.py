"""The default engine: one worker, in this process."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tpo.lab.execution.worker import Worker
from tpo.lab.training import Pace


class InlineWorker:
    """A worker in this process: it runs a call when the scheduler waits for it, and raises errors unchanged."""

    def __init__(self, worker: Worker) -> None:
        """An idle worker."""
        self.worker = worker
        self.call: tuple[str, tuple[Any, ...]] = ("machine", ())
        self.answer: Any = None

    def send(self, method: str, *arguments: Any) -> None:
        self.call = (method, arguments)

    def work(self) -> None:
        """Run the last call."""
        method, arguments = self.call
        self.answer = getattr(self.worker, method)(*arguments)

    def receive(self) -> Any:
        return self.answer


class Inline:
    """Jobs one after the other, in the order in which they were declared."""

    size = 1
    splits = False

    def __init__(self, pace: Pace | None = None) -> None:
        """pace: how each job is run."""
        self.pace = pace

    def start_worker(self) -> InlineWorker:
        return InlineWorker(Worker(self.pace))

    def wait(self, workers: Sequence[InlineWorker], timeout: float | None = None) -> InlineWorker:
        workers[0].work()
        return workers[0]

    def stop_worker(self, worker: InlineWorker) -> None:
        """Nothing to stop: it runs in this process."""

    def close(self) -> None:
        """Nothing to stop."""

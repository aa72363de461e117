"""The engine that needs nothing: one worker, in this process."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tpo.lab.execution.worker import Bench


class HereWorker:
    """A bench that is asked when one waits for it; errors come as they are."""

    def __init__(self, save_every: float) -> None:
        """A free bench."""
        self.bench = Bench(save_every)
        self.order: tuple[str, tuple[Any, ...]] = ("machine", ())
        self.answer: Any = None

    def send(self, method: str, *arguments: Any) -> None:
        self.order = (method, arguments)

    def work(self) -> None:
        """Do what was asked for."""
        method, arguments = self.order
        self.answer = getattr(self.bench, method)(*arguments)

    def receive(self) -> Any:
        return self.answer


class Here:
    """Jobs one after the other, in the order in which they were declared."""

    size = 1
    splits = False

    def __init__(self, save_every: float = 20.0) -> None:
        """A checkpoint at most every so many seconds."""
        self.save_every = save_every

    def hire(self) -> HereWorker:
        return HereWorker(self.save_every)

    def wait(self, workers: Sequence[HereWorker], timeout: float | None = None) -> HereWorker:
        workers[0].work()
        return workers[0]

    def dismiss(self, worker: HereWorker) -> None:
        """It takes nothing away."""

    def close(self) -> None:
        """Nothing was started."""

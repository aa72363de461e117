"""Where the jobs of studies run: in this process, in several, or on a Ray cluster.

An engine starts workers. A worker is a `Bench` somewhere else: it is sent the name of a method and its
arguments, and answers with what the method returns. All that is shared, the order of jobs, the store,
retries and progress, is in `driver`, once for all engines.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from tpo.processes import Failed, Lost

ENGINES = ("local", "ray")


class Worker(Protocol):
    """A bench that may be elsewhere."""

    def send(self, method: str, *arguments: Any) -> None:
        """Ask for a method of the bench; what was asked before is answered before."""

    def receive(self) -> Any:
        """The next answer; `Lost` from a worker that died, `Failed` where the method raised."""


class Engine(Protocol):
    """Starts workers and waits for them; given back by `close`, with every process it started."""

    size: int
    """How many workers may be busy at a time."""
    splits: bool
    """Whether the seeds of a job may go to several workers."""

    def hire(self) -> Worker:
        """One more worker."""

    def wait(self, workers: Sequence[Any], timeout: float | None = None) -> Any:
        """One of these workers whose answer is there, or None after so many seconds."""

    def dismiss(self, worker: Any) -> None:
        """End a worker that has nothing to do."""

    def close(self) -> None:
        """End every worker at once."""


def engine(
    name: str = "local",
    workers: int | None = None,
    save_every: float = 20.0,
    address: str | None = None,
) -> Engine:
    """The engine of that name; `workers` at a time, a checkpoint at most every so many seconds.

    address: of a Ray cluster that runs already; without one, one is started here.
    """
    if name not in ENGINES:
        raise ValueError(f"--engine is {name!r}, expected one of {', '.join(ENGINES)}")
    if workers is not None and workers < 1:
        raise ValueError(f"--workers is {workers}, expected at least 1")
    if address and name != "ray":
        raise ValueError("--address is of a Ray cluster: give --engine ray with it")
    if name == "ray":
        from tpo.lab.execution.ray import Cluster

        return Cluster(address, workers, save_every)
    if (workers or 1) == 1:
        from tpo.lab.execution.inline import Here

        return Here(save_every)
    from tpo.lab.execution.processes import Processes

    return Processes(workers or 1, save_every)


__all__ = ["ENGINES", "Engine", "Failed", "Lost", "Worker", "engine"]

"""Where the jobs of studies run: in this process, in several processes, or on a Ray cluster.

An engine starts workers. Each runs a `Worker`, maybe in another process or on another machine. It gets the
name of a method with its arguments, and answers with what the method returns. `scheduler` does the rest, once
for all engines: the order of jobs, the store, retries and progress.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

from tpo.options import COUNT, one_of, optional
from tpo.processes import Failed, Lost

if TYPE_CHECKING:
    from tpo.lab.training import Pace

ENGINES = ("local", "ray")


class WorkerHandle(Protocol):
    """The caller's end of a `Worker`, which may run elsewhere."""

    def send(self, method: str, *arguments: Any) -> None:
        """Call a method of the worker; calls are answered in their order."""

    def receive(self) -> Any:
        """The next answer; `Lost` if the worker died, `Failed` if the method raised."""


class Engine(Protocol):
    """Starts workers and waits for them; `close` ends every process it started."""

    size: int
    """How many workers may be busy at a time."""
    splits: bool
    """Whether the seeds of a job may go to several workers."""

    def start_worker(self) -> WorkerHandle:
        """Start one more worker."""

    def wait(self, workers: Sequence[Any], timeout: float | None = None) -> Any:
        """One of these workers that has answered, or None after `timeout` seconds."""

    def stop_worker(self, worker: Any) -> None:
        """Stop an idle worker."""

    def close(self) -> None:
        """Stop every worker at once."""


def check_engine(name: str, workers: int | None = None, address: str | None = None) -> None:
    """Raise for a wrong option of `engine`, before a worker imports jax."""
    one_of(*ENGINES).check("--engine", name)
    optional(COUNT).check("--workers", workers)
    if address and name != "ray":
        raise ValueError("--address is of a Ray cluster: give --engine ray with it")


def engine(
    name: str = "local",
    workers: int | None = None,
    address: str | None = None,
    pace: Pace | None = None,
) -> Engine:
    """The engine of that name.

    workers: how many run at a time. pace: how each job is run, such as seconds between checkpoints.
    address: of a running Ray cluster; without it, a cluster is started here.
    """
    check_engine(name, workers, address)
    if name == "ray":
        from tpo.lab.execution.ray import RayCluster

        return RayCluster(address, workers, pace)
    if (workers or 1) == 1:
        from tpo.lab.execution.inline import Inline

        return Inline(pace)
    from tpo.lab.execution.processes import Processes

    return Processes(workers or 1, pace)


__all__ = ["ENGINES", "Engine", "Failed", "Lost", "WorkerHandle", "check_engine", "engine"]

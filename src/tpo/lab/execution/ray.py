"""The engine of a Ray cluster: one that runs already, or one that is started here and ended with the study.

Workers need no file of the driver's: jobs, checkpoints and curves travel through Ray. On a cluster of CPUs a
worker has one of them, and the seeds of a job are shared out. Where there are GPUs a worker has one, or a part
of one, and jobs stay whole: seeds that are computed together are rounded otherwise if they are fewer.
"""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
from collections import deque
from collections.abc import Sequence
from typing import Any

from tpo.lab.execution.worker import LEAST_STEP, Bench
from tpo.processes import Lost, answered

ANSWERS_WITHIN = 5.0
"""Seconds for a machine to answer at all."""
CONNECTS_WITHIN = 40.0
"""Seconds for a cluster to accept a driver."""


class RemoteBench(Bench):
    """A bench that answers rather than raises."""

    def ask(self, method: str, *arguments: Any) -> Any:
        """What the method returns, or that it raised."""
        return answered(getattr(self, method), arguments)


class ClusterWorker:
    """A bench in an actor."""

    def __init__(self, ray: Any, actor: Any) -> None:
        """Nothing asked yet."""
        self.ray = ray
        self.actor = actor
        self.asked: deque[Any] = deque()

    def send(self, method: str, *arguments: Any) -> None:
        self.asked.append(self.actor.ask.remote(method, *arguments))

    def receive(self) -> Any:
        try:
            return self.ray.get(self.asked.popleft())
        except self.ray.exceptions.RayError as error:
            return Lost(_cause(error))


def _cause(error: Exception) -> str:
    """What Ray says, without its advice: its first words, or the end of a traceback."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    if not lines:
        return type(error).__name__
    if "creation task" in lines[0]:
        return lines[-1]
    return lines[0].partition(": ")[0].rstrip(".")


class Cluster:
    """Jobs and seeds over the CPUs, or jobs over the GPUs, of a Ray cluster."""

    def __init__(
        self, address: str | None = None, workers: int | None = None, save_every: float = 20.0
    ) -> None:
        """Connect, or start a cluster of so many workers here; one that this program uses already stays."""
        self.ray = _ray()
        self.save_every = save_every
        self.ours = not self.ray.is_initialized()
        if self.ours:
            self._connect(address or os.environ.get("RAY_ADDRESS"), workers)
        there = self.ray.cluster_resources()
        gpus = there.get("GPU", 0.0)
        self.splits = not gpus
        room = int(gpus * SHARERS if gpus else there.get("CPU", 1))
        self.size = max(1, min(workers or int(gpus) or room, room))
        self.needs = {"num_cpus": 1, "num_gpus": min(1.0, gpus / self.size)}
        self.environment = worker_environment(bool(gpus))

    def _connect(self, address: str | None, workers: int | None) -> None:
        options: dict[str, Any] = {"address": address}
        if address:
            check_address(address)
        else:
            os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
            options = {"address": "local", "num_cpus": workers, "include_dashboard": False}
        self.ray.init(log_to_driver=False, logging_level="ERROR", **options)

    def hire(self) -> ClusterWorker:
        kind = self.ray.remote(RemoteBench)
        environment = {"env_vars": self.environment}
        options = {**self.needs, "max_restarts": 0, "max_task_retries": 0}
        actor = kind.options(runtime_env=environment, **options)
        threads = 1 if self.splits else None
        return ClusterWorker(self.ray, actor.remote(self.save_every, LEAST_STEP, threads))

    def wait(
        self, workers: Sequence[ClusterWorker], timeout: float | None = None
    ) -> ClusterWorker | None:
        first = {worker.asked[0]: worker for worker in workers}
        ready, _ = self.ray.wait(list(first), num_returns=1, timeout=timeout)
        return first[ready[0]] if ready else None

    def dismiss(self, worker: ClusterWorker) -> None:
        self.ray.kill(worker.actor)

    def close(self) -> None:
        """Leave the cluster, which ends our workers; a cluster that was started here ends."""
        if self.ours:
            self.ray.shutdown()


SHARERS = 16
"""Workers that may share a GPU, if so many are asked for."""


def _ray() -> Any:
    try:
        import ray
    except ImportError as error:
        raise ModuleNotFoundError(
            "--engine ray needs Ray, which is not installed: pip install 'tpo[ray]'. "
            "Without it, --workers N runs N jobs at a time on this machine"
        ) from error
    return ray


def worker_environment(gpus: bool) -> dict[str, str]:
    """Variables that make a worker round as this process would.

    XLA divides sums among its threads, so workers open as many as this machine would.
    """
    from tpo.lab.training.loop import cores

    own = os.environ.get("PJRT_NPROC") or os.environ.get("NPROC") or str(cores())
    found = {"PJRT_NPROC": own, "NPROC": own}
    extra = {"XLA_PYTHON_CLIENT_PREALLOCATE": "false"} if gpus else {"JAX_PLATFORMS": "cpu"}
    return {**found, **extra}


def check_address(address: str) -> None:
    """Is a Ray cluster there? Ray itself would try for minutes; an error that names the fix, if not."""
    advice = (
        "start one there with `ray start --head`, give its HOST:PORT, or leave --address away "
        "for a cluster on this machine; if it asks for a token, set RAY_AUTH_MODE=token here"
    )
    place = address.removeprefix("ray://")
    host, colon, port = place.rpartition(":")
    if address != "auto":
        if not colon or not port.isdigit():
            raise ValueError(f"--address is {address!r}, expected HOST:PORT or auto")
        try:
            socket.create_connection((host, int(port)), ANSWERS_WITHIN).close()
        except OSError as error:
            raise ValueError(
                f"--address is {address!r}, and nothing answers there ({error}): {advice}"
            ) from error
    code = f"import ray; ray.init(address={address!r}, logging_level='ERROR')"
    with contextlib.suppress(subprocess.TimeoutExpired):
        found = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, timeout=CONNECTS_WITHIN,
            check=False,
        )  # fmt: skip
        if found.returncode == 0:
            return
        said = found.stderr.strip().splitlines()[-1:] or ["Ray gives no reason"]
        raise ValueError(
            f"--address is {address!r}, and no driver can connect ({said[0]}): {advice}"
        )
    raise ValueError(
        f"--address is {address!r}, and no Ray cluster answered in {CONNECTS_WITHIN:.0f} s: {advice}"
    )

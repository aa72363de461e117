"""The engine of a Ray cluster: a running one, or one that is started here and stopped with the study.

Workers read no file of the driver: jobs, checkpoints and curves travel through Ray. On a cluster of CPUs a
worker has one CPU, and the seeds of a job are divided among workers. On a cluster of GPUs a worker has one GPU
or a part of one, and jobs are not divided: seeds in one batch are rounded differently if they are fewer.
"""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from tpo.lab.execution.worker import LEAST_STEP, Worker
from tpo.lab.training import Pace
from tpo.lab.training.environment import cores
from tpo.processes import Lost, answered

ANSWERS_WITHIN = 5.0
"""Seconds for a machine to answer at all."""
CONNECTS_WITHIN = 40.0
"""Seconds for a cluster to accept a driver."""


class RemoteWorker(Worker):
    """A worker whose errors are answers: it never raises."""

    def ask(self, method: str, *arguments: Any) -> Any:
        """What the method returns, or that it raised."""
        return answered(getattr(self, method), arguments)


class RayWorker:
    """The handle of a worker that runs in a Ray actor."""

    def __init__(self, ray: Any, actor: Any) -> None:
        """No call yet."""
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
    """Ray's message without its advice: its first words, or the end of a traceback."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    if not lines:
        return type(error).__name__
    if "creation task" in lines[0]:
        return lines[-1]
    return lines[0].partition(": ")[0].rstrip(".")


class RayCluster:
    """Jobs and seeds over the CPUs, or jobs over the GPUs, of a Ray cluster."""

    def __init__(
        self, address: str | None = None, workers: int | None = None, pace: Pace | None = None
    ) -> None:
        """Connect, or start a cluster of `workers` CPUs here; a cluster that this program uses is kept."""
        self.ray = _ray()
        self.pace = pace or Pace()
        self.ours = not self.ray.is_initialized()
        if self.ours:
            self._connect(address or os.environ.get("RAY_ADDRESS"), workers)
        resources = self.ray.cluster_resources()
        gpus = resources.get("GPU", 0.0)
        self.splits = not gpus
        most = int(gpus * WORKERS_PER_GPU if gpus else resources.get("CPU", 1))
        self.size = max(1, min(workers or int(gpus) or most, most))
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

    def start_worker(self) -> RayWorker:
        kind = self.ray.remote(RemoteWorker)
        environment = {"env_vars": self.environment}
        options = {**self.needs, "max_restarts": 0, "max_task_retries": 0}
        actor = kind.options(runtime_env=environment, **options)
        pace = replace(self.pace, threads=1) if self.splits else self.pace
        return RayWorker(self.ray, actor.remote(pace, LEAST_STEP))

    def wait(self, workers: Sequence[RayWorker], timeout: float | None = None) -> RayWorker | None:
        first = {worker.asked[0]: worker for worker in workers}
        ready, _ = self.ray.wait(list(first), num_returns=1, timeout=timeout)
        return first[ready[0]] if ready else None

    def stop_worker(self, worker: RayWorker) -> None:
        self.ray.kill(worker.actor)

    def close(self) -> None:
        """Disconnect, which stops our workers; a cluster that was started here is stopped."""
        if self.ours:
            self.ray.shutdown()


WORKERS_PER_GPU = 16
"""Most workers on one GPU, if `workers` asks for them."""


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
    """Variables with which a worker rounds sums as this process does.

    XLA divides sums among its threads, so workers open as many threads as this process.
    """
    own = os.environ.get("PJRT_NPROC") or os.environ.get("NPROC") or str(cores())
    found = {"PJRT_NPROC": own, "NPROC": own}
    extra = {"XLA_PYTHON_CLIENT_PREALLOCATE": "false"} if gpus else {"JAX_PLATFORMS": "cpu"}
    return {**found, **extra}


ADVICE = (
    "start one there with `ray start --head`, give its HOST:PORT, or omit --address "
    "for a cluster on this machine; if it asks for a token, set RAY_AUTH_MODE=token here"
)


def check_address(address: str) -> None:
    """Raise if no Ray cluster answers at the address, and name the fix; Ray itself would try for minutes."""
    if address != "auto":
        _check_port(address)
    code = f"import ray; ray.init(address={address!r}, logging_level='ERROR')"
    with contextlib.suppress(subprocess.TimeoutExpired):
        found = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, timeout=CONNECTS_WITHIN,
            check=False,
        )  # fmt: skip
        if found.returncode == 0:
            return
        reason = found.stderr.strip().splitlines()[-1:] or ["Ray gives no reason"]
        raise ValueError(
            f"--address is {address!r}, and no driver can connect ({reason[0]}): {ADVICE}"
        )
    raise ValueError(
        f"--address is {address!r}, and no Ray cluster answered in {CONNECTS_WITHIN:.0f} s: {ADVICE}"
    )


def _check_port(address: str) -> None:
    """Raise if the address is not HOST:PORT, or nothing listens there."""
    host, colon, port = address.removeprefix("ray://").rpartition(":")
    if not colon or not port.isdigit():
        raise ValueError(f"--address is {address!r}, expected HOST:PORT or auto")
    try:
        socket.create_connection((host, int(port)), ANSWERS_WITHIN).close()
    except OSError as error:
        raise ValueError(
            f"--address is {address!r}, and nothing answers there ({error}): {ADVICE}"
        ) from error

"""Bench: what every worker does, wherever it is. A job in, a step at a time; no file is touched."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, NamedTuple

from tpo.storage.store import Curves, Snapshot

if TYPE_CHECKING:
    from tpo.lab.studies.builders import Job
    from tpo.lab.training import Progress
    from tpo.lab.training.loop import Runner


LEAST_STEP = 0.5
"""Seconds between two answers of a worker in another process: curves travel with each."""


class Machine(NamedTuple):
    """Where a worker computes: what numbers may depend on, and the device in words."""

    environment: dict[str, str]
    device: str


class Step(NamedTuple):
    """What a step gave: how far the job is, a checkpoint if one is due, its curves if it is finished."""

    seconds: float
    progress: Progress | None = None
    saved: Snapshot | None = None
    curves: Curves | None = None


class Bench:
    """One job at a time, from its start or a checkpoint, in steps of at least so many seconds."""

    def __init__(self, save_every: float, least: float = 0.0, threads: int | None = None) -> None:
        """Nothing to do yet; so many seeds at a time, or one for each core."""
        self.save_every = save_every
        self.threads = threads
        self.least = least
        self.runner: Runner | None = None
        self.key = ""
        self.last_save = 0.0

    def machine(self) -> Machine:
        """This machine."""
        from tpo.lab.training.loop import environment

        found = environment()
        cpu = found["platform"] == "cpu"
        return Machine(found, f"{os.cpu_count()} CPU cores" if cpu else found["device"])

    def start(
        self,
        job: Job,
        saved: Snapshot | None,
        environment: dict[str, str],
        lanes: int | None = None,
    ) -> Step:
        """Take the job, and its first step, if this is an environment like that; lanes as in `Pace`."""
        from tpo.lab.training import Cell, Pace
        from tpo.lab.training.loop import Runner

        began = time.monotonic()
        self.runner, self.key = None, job.key
        if self.machine().environment != environment:
            raise ValueError(
                f"a worker computes with {self.machine().environment}, and the first with {environment}: "
                "numbers would not be comparable. Let all have the same version and kind of device"
            )
        if not isinstance(job, Cell):
            arrays = job.arrays()
            return Step(time.monotonic() - began, curves=arrays)
        self.runner = Runner(job, Pace(threads=self.threads, lanes=lanes))
        self.runner.restore(saved)
        self.last_save = time.monotonic()
        found = self.step()
        return found._replace(seconds=time.monotonic() - began)

    def step(self) -> Step:
        """Go on with the job for a chunk or more."""
        from tpo.lab.training import Progress

        runner = self.runner
        assert runner is not None, "a step of no job"
        began = time.monotonic()
        total = runner.cell.budget.episodes
        while runner.episode < total:
            runner.advance()
            if time.monotonic() - began >= self.least:
                break
        progress = Progress(runner.episode, runner.curves(), runner.rate)
        finished = runner.curves() if runner.episode == total else None
        saved = None
        if finished is None and time.monotonic() - self.last_save >= self.save_every:
            saved = runner.snapshot()
            self.last_save = time.monotonic()
        return Step(time.monotonic() - began, progress, saved, finished)

    def snapshot(self, key: str) -> Snapshot | None:
        """How far the job of that key is, to go on from; None before its first episode."""
        begun = self.key == key and self.runner is not None and self.runner.episode > 0
        return self.runner.snapshot() if self.runner and begun else None

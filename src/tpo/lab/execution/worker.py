"""Worker: what every worker does, in whichever process it is. It takes a job, and runs it a step at a time."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

from tpo.lab.former_names import current_environment
from tpo.lab.studies.builders import AnyCell
from tpo.lab.training import Cell, Pace
from tpo.lab.training.environment import device, environment
from tpo.lab.training.loop import Step, TrainingRun
from tpo.storage.store import Snapshot

LEAST_STEP = 0.5
"""Seconds between two answers of a worker in another process: each answer carries the curves."""


class Machine(NamedTuple):
    """Where a worker computes: what numbers may depend on, and the device in words."""

    environment: dict[str, str]
    device: str


class Worker:
    """Runs one job at a time, from its start or a checkpoint. It writes no files."""

    def __init__(self, pace: Pace | None = None, least: float = 0.0) -> None:
        """An idle worker. least: seconds of a step, at least."""
        self.pace = pace or Pace()
        self.least = least
        self.training: TrainingRun | None = None
        self.key = ""
        self.steps: Iterator[Step] = iter(())

    def machine(self) -> Machine:
        """This machine."""
        return Machine(environment(), device())

    def start(
        self,
        cell: AnyCell,
        saved: Snapshot | None,
        expected: dict[str, str],
        data_parallel_size: int | None = None,
    ) -> Step:
        """Begin a shard and run its first step.

        expected: the environment of the first worker; another one is refused.
        data_parallel_size: as in `Pace`.
        """
        began = time.monotonic()
        self.training, self.key = None, cell.key
        if self.machine().environment != current_environment(expected):
            raise ValueError(
                f"a worker computes with {self.machine().environment}, and the first with {expected}: "
                "numbers would not be comparable. Let all have the same version and kind of device"
            )
        if not isinstance(cell, Cell):
            arrays = cell.arrays()
            return Step(time.monotonic() - began, curves=arrays)
        size = data_parallel_size or self.pace.data_parallel_size
        self.training = TrainingRun(cell, replace(self.pace, data_parallel_size=size))
        self.training.restore(saved)
        self.steps = self.training.steps(self.pace.save_every, self.least)
        found = self.step()
        return found._replace(seconds=time.monotonic() - began)

    def step(self) -> Step:
        """Run the next chunk of the shard, or several."""
        return next(self.steps)

    def snapshot(self, key: str) -> Snapshot | None:
        """A checkpoint of the job of that key; None before its first episode."""
        begun = self.key == key and self.training is not None and self.training.episode > 0
        return self.training.snapshot() if self.training and begun else None

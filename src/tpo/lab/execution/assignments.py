"""SharedJob: a job that is run once for all who planned it. Assignment: one shard of it, given to a worker."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tpo.lab.execution.shards import Shard
from tpo.lab.training import TrainingProgress
from tpo.storage.store import joined

if TYPE_CHECKING:  # the runner imports the scheduler, which imports this module
    from tpo.lab.execution.runner import PlannedJob
    from tpo.lab.studies.builders import Job


@dataclass(eq=False)
class SharedJob:
    """A job that is run once for all who planned it; divided into shards if several workers run it."""

    planned: list[PlannedJob]
    shards: list[Shard] = field(default_factory=list)
    steps: dict[Shard, TrainingProgress] = field(default_factory=dict)
    """The latest progress of each shard that has begun."""
    seconds: float = 0.0
    """Spent since its cost was last written."""

    @property
    def title(self) -> str:
        return self.planned[0].title

    @property
    def job(self) -> Job:
        return self.planned[0].job

    @property
    def key(self) -> str:
        return self.job.key

    def progress(self) -> TrainingProgress:
        """Of the whole job: the mean episode over its seeds, and the curves of shards that have begun."""
        if len(self.shards) == 1:
            return self.steps[self.shards[0]]
        share = {shard: shard.seeds / self.planned[0].seeds for shard in self.steps}
        episode = sum(share[shard] * step.episode for shard, step in self.steps.items())
        rate = sum(share[shard] * step.rate for shard, step in self.steps.items())
        curves = [step.curves for step in self.steps.values() if step.curves]
        return TrainingProgress(round(episode), joined(curves) if curves else {}, rate)


@dataclass(eq=False)
class Assignment:
    """One shard of a job, given to a worker."""

    shared_job: SharedJob
    shard: Shard
    losses: int = 0
    """Workers that died on it since its last checkpoint."""


def shared_jobs(planned: Sequence[PlannedJob]) -> list[SharedJob]:
    """Each key once, in the order of its first appearance."""
    found: dict[str, SharedJob] = {}
    for one in planned:
        key = one.job.key
        if key in found:
            found[key].planned.append(one)
        else:
            found[key] = SharedJob([one])
    return list(found.values())

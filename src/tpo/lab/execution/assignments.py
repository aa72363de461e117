"""Task: a job to be done once, whoever planned it; Errand: a piece of it on its way through a worker."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tpo.lab.execution.shards import Piece
from tpo.storage.store import joined

if TYPE_CHECKING:
    from tpo.lab.execution.runner import Planned
    from tpo.lab.studies.builders import Job
    from tpo.lab.training import Progress


@dataclass(eq=False)
class Task:
    """A job to be done once, for everyone who planned it; in pieces, where several workers share it."""

    planned: list[Planned]
    pieces: list[Piece] = field(default_factory=list)
    steps: dict[Piece, Progress] = field(default_factory=dict)
    """The newest of each piece that has begun."""
    seconds: float = 0.0
    """Spent since its cost was last noted."""

    @property
    def title(self) -> str:
        return self.planned[0].title

    @property
    def job(self) -> Job:
        return self.planned[0].job

    @property
    def key(self) -> str:
        return self.job.key

    def progress(self) -> Progress:
        """Of the whole job: as far as its seeds are on average, with the curves of those that have begun."""
        from tpo.lab.training import Progress

        if len(self.pieces) == 1:
            return self.steps[self.pieces[0]]
        share = {piece: piece.seeds / self.planned[0].seeds for piece in self.steps}
        episode = sum(share[piece] * step.episode for piece, step in self.steps.items())
        rate = sum(share[piece] * step.rate for piece, step in self.steps.items())
        curves = [step.curves for step in self.steps.values() if step.curves]
        return Progress(round(episode), joined(curves) if curves else {}, rate)


@dataclass(eq=False)
class Errand:
    """One piece of a task on its way through a worker."""

    task: Task
    piece: Piece
    losses: int = 0


def tasks(planned: Sequence[Planned]) -> list[Task]:
    """Each key once, in the order of its first appearance."""
    found: dict[str, Task] = {}
    for one in planned:
        key = one.job.key
        if key in found:
            found[key].planned.append(one)
        else:
            found[key] = Task([one])
    return list(found.values())

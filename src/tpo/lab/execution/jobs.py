"""Request: what was asked of a study. Job: one of its runs. Shard: seeds of a job, which one worker runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from tpo.declarations.manifest import PlannedCell
from tpo.declarations.study import Study
from tpo.lab.studies.builders import BUILDERS, AnyCell
from tpo.lab.training import Cell, TrainingProgress
from tpo.objectives.method_syntax import label
from tpo.storage.store import joined


@dataclass(frozen=True)
class Request:
    """Which part of a study to run: its scale, and the changes of the command line."""

    study: Study
    scale: str = "quick"
    seeds: int | None = None
    methods: tuple[str, ...] = ()
    only: Mapping[str, str] | None = None
    first_seed: int = 0
    asked: str = ""
    """The command, where it is another than `tpo run` with the study's name."""

    def __post_init__(self) -> None:
        if self.first_seed < 0:
            raise ValueError(f"--seed-offset is {self.first_seed}, expected 0 or more")

    @property
    def command(self) -> str:
        """The equivalent command."""
        words = ["tpo", "run", self.study.name, "--scale", self.scale]
        words += ["--seeds", str(self.seeds)] if self.seeds else []
        words += ["--seed-offset", str(self.first_seed)] if self.first_seed else []
        words += ["--methods", ",".join(self.methods)] if self.methods else []
        words += [f"--only {key}={value}" for key, value in (self.only or {}).items()]
        return self.asked or " ".join(words)

    @cached_property
    def jobs(self) -> list[Job]:
        """Every job of the request, planned once."""
        return plan(self)


@dataclass(eq=False)
class Job:
    """A method at a point of a study's grid; divided into shards if several workers run it."""

    coords: Mapping[str, Any]
    method: str
    label: str
    cell: AnyCell
    shards: Sequence[Shard] = ()
    """As the scheduler divides it."""

    @property
    def key(self) -> str:
        """Equal cells have equal keys, so that studies that share one share its run."""
        return self.cell.key

    @property
    def planned_cell(self) -> PlannedCell:
        return PlannedCell(self.key, self.coords, self.method, self.label)

    @property
    def seeds(self) -> int:
        return self._budget("seeds")

    @property
    def first_seed(self) -> int:
        return int(getattr(getattr(self.cell, "budget", None), "first_seed", 0))

    @property
    def episodes(self) -> int:
        return self._budget("episodes")

    def _budget(self, name: str) -> int:
        """From a cell's budget, or from a computation itself; 1 if it has none."""
        return int(getattr(getattr(self.cell, "budget", self.cell), name, 1))

    @property
    def title(self) -> str:
        return " ".join([self.label, *(f"{k}={v}" for k, v in self.coords.items())])

    def progress(self) -> TrainingProgress:
        """The mean episode over its seeds, and the curves of shards that have begun."""
        begun = [(shard, shard.progress) for shard in self.shards if shard.progress]
        if len(self.shards) == 1:
            return begun[0][1]
        shares = [(shard.seeds / self.seeds, found) for shard, found in begun]
        curves = [found.curves for _, found in begun if found.curves]
        return TrainingProgress(
            round(sum(share * found.episode for share, found in shares)),
            joined(curves) if curves else {},
            sum(share * found.rate for share, found in shares),
        )


@dataclass(eq=False)
class Shard:
    """A job, or the same job with some of its seeds; where: its key in the store."""

    job: Job
    cell: AnyCell
    where: str
    data_parallel_size: int | None = None
    """As in `Pace`: 1 if the whole job has several seeds, so that sums are rounded as in the whole job."""
    progress: TrainingProgress | None = field(default=None, repr=False)
    """The latest; None before it has begun."""
    losses: int = 0
    """Workers that died on it since its last checkpoint."""
    seconds: float = 0.0
    """Spent since its cost was last written."""

    @property
    def seeds(self) -> int:
        return self.cell.budget.seeds if isinstance(self.cell, Cell) else 1


def plan(request: Request) -> list[Job]:
    """Every job of the request; an unknown scale, method or axis raises and lists the valid ones."""
    study = request.study
    scale = study.scale(request.scale)
    if request.seeds is not None:
        if request.seeds < 1:
            raise ValueError(f"--seeds is {request.seeds}, expected at least 1")
        adjust = {k: {**v, "seeds": request.seeds} for k, v in scale.adjust.items()}
        scale = replace(scale, seeds=request.seeds, adjust=adjust)
    build = BUILDERS[study.build]
    return [
        Job(
            coords,
            method,
            label(method, study.labels),
            _from_seed(request, build(scale.settings_at(study, coords), method)),
        )
        for coords in study.coordinates(scale, request.only)
        for method in request.methods or scale.methods or study.methods
    ]


def _from_seed(request: Request, cell: AnyCell) -> AnyCell:
    """The cell with the first seed of the request."""
    if not request.first_seed:
        return cell
    if not isinstance(cell, Cell):
        raise ValueError(
            f"--seed-offset is {request.first_seed}, and {request.study.name} trains nothing: omit it"
        )
    return replace(cell, budget=replace(cell.budget, first_seed=request.first_seed))


def by_key(jobs: Sequence[Job]) -> dict[str, list[Job]]:
    """The jobs that one run serves, in the order of their first."""
    found: dict[str, list[Job]] = {}
    for job in jobs:
        found.setdefault(job.key, []).append(job)
    return found

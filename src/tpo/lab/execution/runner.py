"""The runner of studies: it plans their jobs, and an engine runs them through the store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tpo.declarations import manifest
from tpo.declarations.study import Study
from tpo.lab.execution import Engine
from tpo.lab.execution.inline import Inline
from tpo.lab.execution.scheduler import Scheduler, Watcher
from tpo.lab.studies.builders import BUILDERS, Job
from tpo.lab.training import Cell
from tpo.objectives.method_syntax import label
from tpo.storage.store import Store


@dataclass(frozen=True)
class Request:
    """Which part of a study to run: its scale, and the changes of the command line."""

    study: Study
    scale: str = "quick"
    seeds: int | None = None
    methods: tuple[str, ...] = ()
    only: Mapping[str, str] | None = None
    first_seed: int = 0

    def __post_init__(self) -> None:
        if self.first_seed < 0:
            raise ValueError(f"--seed-offset is {self.first_seed}, expected 0 or more")

    def command(self) -> str:
        """The equivalent command."""
        words = ["tpo", "run", self.study.name, "--scale", self.scale]
        words += ["--seeds", str(self.seeds)] if self.seeds else []
        words += ["--seed-offset", str(self.first_seed)] if self.first_seed else []
        words += ["--methods", ",".join(self.methods)] if self.methods else []
        words += [f"--only {key}={value}" for key, value in (self.only or {}).items()]
        return " ".join(words)


@dataclass(frozen=True)
class PlannedJob:
    """One job of a study: a method at a point of the grid."""

    coords: Mapping[str, Any]
    method: str
    label: str
    job: Job

    @property
    def planned_cell(self) -> manifest.PlannedCell:
        return manifest.PlannedCell(self.job.key, self.coords, self.method, self.label)

    @property
    def seeds(self) -> int:
        return self._budget("seeds")

    @property
    def first_seed(self) -> int:
        return int(getattr(getattr(self.job, "budget", None), "first_seed", 0))

    @property
    def episodes(self) -> int:
        return self._budget("episodes")

    def _budget(self, name: str) -> int:
        """From a cell's budget, or from a computation itself; 1 if it has none."""
        return int(getattr(getattr(self.job, "budget", self.job), name, 1))

    @property
    def title(self) -> str:
        return " ".join([self.label, *(f"{k}={v}" for k, v in self.coords.items())])


def plan(request: Request) -> list[PlannedJob]:
    """Every job of the request; an unknown scale, method or axis raises and lists the valid ones."""
    study = request.study
    scale = study.scale(request.scale)
    if request.seeds is not None:
        if request.seeds < 1:
            raise ValueError(f"--seeds is {request.seeds}, expected at least 1")
        adjust = {k: {**v, "seeds": request.seeds} for k, v in scale.adjust.items()}
        scale = replace(scale, seeds=request.seeds, adjust=adjust)
    methods = request.methods or scale.methods or study.methods
    build = BUILDERS[study.build]
    return [
        PlannedJob(
            coords,
            method,
            label(method, study.labels),
            _from_seed(request, build(scale.settings_at(study, coords), method)),
        )
        for coords in study.coordinates(scale, request.only)
        for method in methods
    ]


def _from_seed(request: Request, job: Job) -> Job:
    """The job with the first seed of the request."""
    if not request.first_seed:
        return job
    if not isinstance(job, Cell):
        raise ValueError(
            f"--seed-offset is {request.first_seed}, and {request.study.name} trains nothing: omit it"
        )
    return replace(job, budget=replace(job.budget, first_seed=request.first_seed))


def run(
    request: Request, folder: str | Path, watch: Watcher | None = None, engine: Engine | None = None
) -> list[PlannedJob]:
    """Run the unfinished jobs; finished jobs and the last checkpoint are kept in the folder."""
    return run_all([request], folder, watch, engine)


def run_all(
    requests: Sequence[Request],
    folder: str | Path,
    watch: Watcher | None = None,
    engine: Engine | None = None,
) -> list[PlannedJob]:
    """Run several studies as one list of jobs: a job of two studies is run once."""
    store = Store(folder)
    planned = [plan(request) for request in requests]
    jobs = [job for found in planned for job in found]
    with Scheduler(engine or Inline(), store, watch) as scheduler:
        device = scheduler.machine().device
        for request, found in zip(requests, planned, strict=True):
            write_manifest(request, found, store, device)
        scheduler.run(jobs)
    return jobs


def write_manifest(request: Request, jobs: Sequence[PlannedJob], store: Store, device: str) -> None:
    """Write the manifest, joined with that of an earlier run of the study."""
    study, scale = request.study, request.study.scale(request.scale)
    seeds = request.seeds or scale.seeds
    wanted = manifest.Manifest(
        name=study.name,
        scale=request.scale,
        seeds=seeds,
        episodes=scale.episodes,
        command=request.command(),
        settings={**study.settings, **scale.settings, "seeds": seeds, "episodes": scale.episodes},
        parts=tuple(planned.planned_cell for planned in jobs),
        provenance=manifest.provenance(request.first_seed, seeds, device),
        study=study.to_json(),
    )
    manifest.add(store, wanted)

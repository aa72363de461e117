"""The one runner: studies become planned jobs, which an engine runs through the store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tpo.lab.execution import Engine
from tpo.lab.execution.inline import Here
from tpo.lab.execution.scheduler import Driver, Watcher
from tpo.lab.studies import manifest
from tpo.lab.studies.method_specs import fitting, label
from tpo.lab.studies.study import Study
from tpo.storage.store import Store

if TYPE_CHECKING:
    from tpo.lab.studies.builders import Job


@dataclass(frozen=True)
class Request:
    """What to run of a study: its scale, and what the command line changes."""

    study: Study
    scale: str = "quick"
    seeds: int | None = None
    methods: tuple[str, ...] = ()
    only: Mapping[str, str] | None = None

    def command(self) -> str:
        """The command that asks for this."""
        words = ["tpo", "run", self.study.name, "--scale", self.scale]
        words += ["--seeds", str(self.seeds)] if self.seeds else []
        words += ["--methods", ",".join(self.methods)] if self.methods else []
        words += [f"--only {key}={value}" for key, value in (self.only or {}).items()]
        return " ".join(words)


@dataclass(frozen=True)
class Planned:
    """One job of a study: a method at a point of the grid."""

    coords: Mapping[str, Any]
    method: str
    label: str
    job: Job

    @property
    def part(self) -> manifest.Part:
        return manifest.Part(self.job.key, self.coords, self.method, self.label)

    @property
    def seeds(self) -> int:
        return self._budget("seeds")

    @property
    def episodes(self) -> int:
        return self._budget("episodes")

    def _budget(self, name: str) -> int:
        """Of a cell's budget, or of a computation itself; 1 where it has none."""
        return int(getattr(getattr(self.job, "budget", self.job), name, 1))

    @property
    def title(self) -> str:
        return " ".join([self.label, *(f"{k}={v}" for k, v in self.coords.items())])


def plan(request: Request) -> list[Planned]:
    """Every job that the request asks for; a wrong scale, method or axis raises with the valid ones."""
    from tpo.lab.studies.builders import RECIPES

    study = request.study
    scale = study.scale(request.scale)
    if request.seeds is not None:
        if request.seeds < 1:
            raise ValueError(f"--seeds is {request.seeds}, expected at least 1")
        adjust = {k: {**v, "seeds": request.seeds} for k, v in scale.adjust.items()}
        scale = replace(scale, seeds=request.seeds, adjust=adjust)
    methods = request.methods or scale.methods or study.methods or tuple(fitting())
    recipe = RECIPES[study.build]
    return [
        Planned(
            coords,
            method,
            label(method, study.labels),
            recipe(scale.settings_at(study, coords), method),
        )
        for coords in study.coordinates(scale, request.only)
        for method in methods
    ]


def run(
    request: Request, folder: str | Path, watch: Watcher | None = None, engine: Engine | None = None
) -> list[Planned]:
    """Run what is not finished yet; every finished job and the last checkpoint stay in the folder."""
    return run_all([request], folder, watch, engine)


def run_all(
    requests: Sequence[Request],
    folder: str | Path,
    watch: Watcher | None = None,
    engine: Engine | None = None,
) -> list[Planned]:
    """Run several studies as one list of jobs: what they share is run once."""
    store = Store(folder)
    planned = [plan(request) for request in requests]
    jobs = [job for found in planned for job in found]
    with Driver(engine or Here(), store, watch) as driver:
        device = driver.machine().device
        for request, found in zip(requests, planned, strict=True):
            note(request, found, store.folder, device)
        driver.run(jobs)
    return jobs


def note(request: Request, jobs: Sequence[Planned], folder: Path, device: str) -> None:
    """Write the manifest, joined with what an earlier run of the study left."""
    study, scale = request.study, request.study.scale(request.scale)
    seeds = request.seeds or scale.seeds
    wanted = manifest.Manifest(
        name=study.name,
        scale=request.scale,
        seeds=seeds,
        episodes=scale.episodes,
        command=request.command(),
        settings={**study.settings, **scale.settings, "seeds": seeds, "episodes": scale.episodes},
        parts=tuple(planned.part for planned in jobs),
        provenance=manifest.provenance(seeds, device),
    )
    manifest.write(folder, wanted.joined(manifest.read(folder, study.name)))

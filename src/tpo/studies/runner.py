"""The one runner: a study becomes planned jobs, each run through the store, so that it can go on."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tpo.results.files import write_json
from tpo.results.loaded import cost
from tpo.results.store import Curves, Store
from tpo.studies import manifest
from tpo.studies.declare import Study
from tpo.studies.methods import fitting, label

if TYPE_CHECKING:
    from tpo.studies.recipes import Job
    from tpo.training import Progress


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
    from tpo.studies.recipes import RECIPES

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


Watcher = Callable[[Planned, "Progress | None"], None]
"""Told of each chunk of a job, and with None when the job is finished."""


def run(request: Request, folder: str | Path, watch: Watcher | None = None) -> list[Planned]:
    """Run what is not finished yet; every finished job and the last checkpoint stay in the folder."""
    jobs = plan(request)
    store = Store(folder)
    note(request, jobs, store.folder)
    for planned in jobs:
        run_one(planned, store, watch)
    return jobs


def note(request: Request, jobs: Sequence[Planned], folder: Path) -> None:
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
        provenance=manifest.provenance(seeds, _device()),
    )
    manifest.write(folder, wanted.joined(manifest.read(folder, study.name)))


def _device() -> str:
    import jax

    kind = str(jax.devices()[0].device_kind)
    return f"{os.cpu_count()} CPU cores" if kind == "cpu" else kind


def run_one(planned: Planned, store: Store, watch: Watcher | None = None) -> Curves:
    """The arrays of one job, computed or from the store, its seconds added to its cost."""
    from tpo.training import Cell, run

    key = planned.job.key
    began = time.monotonic()
    found = store.curves(key)
    if found is None:
        try:
            if isinstance(planned.job, Cell):
                tell = (lambda progress: watch(planned, progress)) if watch else None
                found = run(planned.job, store, tell)
            else:
                found = planned.job.arrays()
                store.begin(key, planned.job.to_json())
                store.finish(key, found)
        finally:
            if (store.folder / key).is_dir():
                _add_cost(store.folder, planned, time.monotonic() - began)
    if watch:
        watch(planned, None)
    return found


def _add_cost(folder: Path, planned: Planned, seconds: float) -> None:
    """What the run has cost so far, and the code and machine that it was last computed with."""
    key = planned.job.key
    found = {
        "seconds": round(cost(folder, key) + seconds, 3),
        "provenance": manifest.provenance(planned.seeds, _device()),
    }
    write_json(folder / key / "cost.json", found)

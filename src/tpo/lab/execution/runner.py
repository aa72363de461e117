"""The runner of studies: an engine runs their jobs through the store."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from tpo.declarations import manifest
from tpo.lab.execution import Engine
from tpo.lab.execution.inline import Inline
from tpo.lab.execution.jobs import Job, Request, plan
from tpo.lab.execution.scheduler import Scheduler, Watcher
from tpo.lab.training import Cell, Pace, TrainingProgress
from tpo.storage.store import Curves, Store


def run(
    request: Request, folder: str | Path, watch: Watcher | None = None, engine: Engine | None = None
) -> list[Job]:
    """Run the unfinished jobs; finished jobs and the last checkpoint are kept in the folder."""
    return run_all([request], folder, watch, engine)


def run_all(
    requests: Sequence[Request],
    folder: str | Path,
    watch: Watcher | None = None,
    engine: Engine | None = None,
) -> list[Job]:
    """Run several studies as one list of jobs: a job of two studies is run once."""
    store = Store(folder)
    jobs = [job for request in requests for job in request.jobs]
    with Scheduler(engine or Inline(), store, watch) as scheduler:
        device = scheduler.machine().device
        for request in requests:
            write_manifest(request, store, device)
        scheduler.run(jobs)
    return jobs


def run_cell(
    cell: Cell,
    store: Store,
    watch: Callable[[TrainingProgress], None] | None = None,
    pace: Pace | None = None,
) -> Curves:
    """The curves of one cell that is in no study, through a store: it resumes, and is not run twice."""

    def told(job: Job, progress: TrainingProgress | None) -> None:
        if watch and progress and progress.curves:
            watch(progress)

    name = cell.method.objective
    with Scheduler(Inline(pace), store, told) as scheduler:
        scheduler.run([Job({}, name, name, cell)])
    return store.curves(cell.key) or {}


def write_manifest(request: Request, store: Store, device: str) -> None:
    """Write the manifest, joined with that of an earlier run of the study."""
    study, scale = request.study, request.study.scale(request.scale)
    seeds = request.seeds or scale.seeds
    wanted = manifest.Manifest(
        name=study.name,
        scale=request.scale,
        seeds=seeds,
        episodes=scale.episodes,
        command=request.command,
        settings={**study.settings, **scale.settings, "seeds": seeds, "episodes": scale.episodes},
        parts=tuple(job.planned_cell for job in request.jobs),
        provenance=manifest.provenance(request.first_seed, seeds, device),
        study=study.to_json(),
    )
    manifest.add(store, wanted)


__all__ = ["Job", "Request", "plan", "run", "run_all", "run_cell", "write_manifest"]

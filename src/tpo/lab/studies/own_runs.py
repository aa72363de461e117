"""Runs of your own (`tpo run --methods ...`) as a study, so that tables, figures and reports read them too."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tpo.lab.studies import manifest
from tpo.lab.studies.method_specs import bandit_row, label, sequence_row, uses_critic
from tpo.lab.studies.study import ERROR, EXPLAINED, Measure, Scale, Study

if TYPE_CHECKING:
    from tpo.lab.tasks import Task
    from tpo.lab.training import Cell
    from tpo.storage.store import Store

HELD_OUT = Measure("test_error", "held-out error", log=True)
SCALE = "own"
ABOUT = "Runs of your own: every method learns the same task with the same settings."


def study_of(methods: Sequence[str], task: Task, settings: Mapping[str, Any]) -> Study:
    """The study of these methods on a task; settings: what is equal for all, with seeds and episodes.

    Another task or setting is another study. More methods, seeds or episodes are the same one.
    """
    from tpo.lab.training.registry import described

    sizes = {name: settings[name] for name in ("seeds", "episodes")}
    text = json.dumps([described(task), {k: v for k, v in settings.items() if k not in sizes}])
    held_out = bool(settings.get("evaluate_every")) and task.held_out(task.load()) is not None
    row_of = sequence_row if task.length > 1 else bandit_row
    has_critic = any(uses_critic(row_of(name)) for name in methods)
    return Study(
        name=f"run-{hashlib.sha256(text.encode()).hexdigest()[:8]}",
        title=repr(task),
        source="own run",
        about=ABOUT,
        build="own",
        methods=tuple(methods),
        settings={"task": repr(task), **settings},
        scales={SCALE: Scale(**sizes)},
        measures=(HELD_OUT,) * held_out + (ERROR,) + (EXPLAINED,) * has_critic,
        extra=True,
    )


def write_manifest(
    store: Store, study: Study, cells: Mapping[str, Cell], command: str, device: str
) -> None:
    """Add the cells to the study's manifest in a store."""
    budget = next(iter(cells.values())).budget
    parts = [manifest.PlannedCell(cell.key, {}, name, label(name)) for name, cell in cells.items()]
    wanted = manifest.Manifest(
        name=study.name,
        scale=SCALE,
        seeds=budget.seeds,
        episodes=budget.episodes,
        command=command,
        settings=study.settings,
        parts=tuple(parts),
        provenance=manifest.provenance(budget.first_seed, budget.seeds, device),
        study=study.to_json(),
    )
    manifest.add(store, wanted)

"""Several methods on the same prompts and seeds, and their comparison as plain files.

DIR/comparison.json      what is compared, and the summary in the report's schema
DIR/report.html          the comparison as a page, and as report.md
DIR/curves.npz           METHOD/MEASURE [seeds, rollout batches] for the measures of `outcome.MEASURES`
DIR/METHOD-seedN         each run, as `train` leaves it; failed.json says why one is not complete
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tpo.llm import models, workers
from tpo.llm.outcome import summary, write_curves
from tpo.llm.plan import Plan, Run
from tpo.llm.recipe import changed, is_main, processes
from tpo.results.files import read_json, write_json
from tpo.results.report import write_studies


def comparison(plan: Plan, at_a_time: int = 1, resume: bool = False) -> dict[str, Any]:
    """Train every method with every seed; return the summary.

    Runs that are complete are not repeated, so the same call goes on where it stopped; with `resume` there may
    be more seeds or methods than before. With several `at_a_time`, each in a process of its own, a run that
    fails is told in the summary; alone, it raises.
    """
    if at_a_time < 1:
        raise ValueError(f"workers is {at_a_time}, expected at least 1")
    if at_a_time > 1 and processes() > 1:
        raise ValueError(
            f"workers is {at_a_time} under torchrun, which spreads one run over {processes()} processes: "
            "start one process, or leave workers out"
        )
    plan.check()
    _check_folder(plan, resume)
    folder, base = plan.folder, plan.folder / "base"
    if at_a_time > 1:
        models.prepared(plan.recipe.model, base)  # once, before they all want it
    if is_main():
        write_json(folder / "comparison.json", {"plan": plan.plain()})

    def then(run: Run) -> Sequence[Run]:
        if is_main():
            write_curves(plan)
        return ()

    if at_a_time == 1:
        workers.in_turn(plan.runs(), base, then)
    else:
        workers.in_processes(_missing(plan.runs()), base, then, at_a_time)
    found = summary(folder)
    if is_main():
        write_json(folder / "comparison.json", {"plan": plan.plain(), "summary": found})
        write_studies([found], folder / "report.html")
    return found


def _missing(runs: Sequence[Run]) -> list[Run]:
    return [run for run in runs if not (run.folder / "result.json").exists()]


def _check_folder(plan: Plan, resume: bool) -> None:
    """An earlier comparison with another recipe, or without `resume`, is left alone."""
    folder = Path(plan.recipe.out)
    before = read_json(folder / "comparison.json") if is_main() else None
    if before is None:
        return
    if not resume:
        raise ValueError(
            f"{folder} holds a comparison already: add --resume to go on, or choose another --out"
        )
    other = changed(before["plan"]["recipe"], plan.plain()["recipe"])
    if other:
        raise ValueError(
            f"{folder} holds a comparison with another {', '.join(other)}: give the same, or another --out"
        )

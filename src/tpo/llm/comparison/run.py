"""Train several methods on the same prompts and seeds, and keep their comparison as plain files.

DIR/comparison.json      the plan, and the summary in the report's schema
DIR/curves.npz           METHOD/MEASURE [seeds, rollout batches] for each of `run_log.MEASURES`
DIR/tuning               the tuning runs; tuning.json beside it has the values that they chose
DIR/METHOD-seedN         each run, as `train` leaves it; failed.json says why one is not complete
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from tpo.llm.comparison import pool, tuning_results
from tpo.llm.comparison.method import MethodSpec
from tpo.llm.comparison.plan import Plan, Run
from tpo.llm.comparison.summary import summary, write_curves
from tpo.llm.runs import models
from tpo.llm.runs.evaluation import NothingScoredError
from tpo.llm.runs.folders import check_comparison
from tpo.llm.runs.launch import is_main, processes
from tpo.storage.files import write_json


def compare(plan: Plan, workers: int = 1, resume: bool = False) -> dict[str, Any]:
    """Train every method with every seed; return the summary.

    Complete runs are not repeated, so the same call with `resume` continues an interrupted comparison; it may
    then ask for more seeds or methods than before. With several `workers`, each run is trained in a process of
    its own, and the summary names a run that failed. With one worker, a run that fails raises.
    """
    if workers < 1:
        raise ValueError(f"workers is {workers}, expected at least 1")
    if workers > 1 and processes() > 1:
        raise ValueError(
            f"workers is {workers} under torchrun, which spreads one run over {processes()} processes: "
            "start one process, or leave workers out"
        )
    plan.check()
    if left_out := check_comparison(plan, resume):
        print(
            f"{plan.folder} also holds {', '.join(left_out)}: left out of the summary",
            file=sys.stderr,
        )
    folder, base = plan.folder, plan.folder / "base"
    if workers > 1:
        models.local_copy(plan.recipe.model, base)  # once, before all workers need it
    if is_main():
        write_json(folder / "comparison.json", {"plan": plan.to_dict()})

    def on_end(run: Run) -> Sequence[Run]:
        if is_main():
            write_curves(plan)
        return _runs_after(plan, run)

    try:
        if workers == 1:
            pool.run_in_turn(_first_runs(plan), base, on_end)
        else:
            pool.run_in_processes(_first_runs(plan), base, on_end, workers)
    except NothingScoredError:
        if not any(folder.rglob("recipe.json")):  # nothing is trained: a new command may start
            (folder / "comparison.json").unlink(missing_ok=True)
        raise
    result = summary(folder)
    if is_main():
        write_json(folder / "comparison.json", {"plan": plan.to_dict(), "summary": result})
    return result


def _first_runs(plan: Plan) -> list[Run]:
    """The tuning runs, and the reported runs of methods that need no tuning or are tuned; seed by seed."""
    tuned = tuning_results.tuned_methods(plan)
    untuned = [method for method in plan.methods if method not in tuned]
    tuning = _incomplete(
        [run for method in untuned for run in tuning_results.tuning_runs(plan, method)]
    )
    just_tuned = [method for method in untuned if tuning_results.choose_value(plan, method)]
    return tuning + _reported_runs(plan, [m for m in plan.methods if m in tuned or m in just_tuned])


def _runs_after(plan: Plan, run: Run) -> list[Run]:
    """The reported runs of a method, if this was the last of its tuning runs."""
    if plan.tuning is None or not run.is_tuning:
        return []
    method = next(m for m in plan.methods if run.method in plan.tuning.variants(m))
    return _reported_runs(plan, [method]) if tuning_results.choose_value(plan, method) else []


def _reported_runs(plan: Plan, methods: Sequence[MethodSpec]) -> list[Run]:
    tuned = tuning_results.tuned_methods(plan)
    return _incomplete(
        [plan.run(m, seed, tuned[m]) for seed in plan.reported_seeds for m in methods]
    )


def _incomplete(runs: Sequence[Run]) -> list[Run]:
    """Those that are not complete; the failures of earlier attempts are removed."""
    incomplete = [run for run in runs if not (run.folder / "result.json").exists()]
    for run in incomplete:
        (run.folder / "failed.json").unlink(missing_ok=True)
    return incomplete

"""Several methods on the same prompts and seeds, and their comparison as plain files.

DIR/comparison.json      what is compared, and the summary in the report's schema
DIR/curves.npz           METHOD/MEASURE [seeds, rollout batches] for the measures of `outcome.MEASURES`
DIR/tuning               runs that tuning tried, and tuning.json what it found
DIR/METHOD-seedN         each run, as `train` leaves it; failed.json says why one is not complete
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from tpo.llm.comparison import pool, tuning_results
from tpo.llm.comparison.method import Method
from tpo.llm.comparison.plan import Plan, Run
from tpo.llm.comparison.summary import summary, write_curves
from tpo.llm.runs import models
from tpo.llm.runs.folders import check_comparison
from tpo.llm.runs.launch import is_main, processes
from tpo.storage.files import write_json


def compare(plan: Plan, at_a_time: int = 1, resume: bool = False) -> dict[str, Any]:
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
    if left := check_comparison(plan, resume):
        print(
            f"{plan.folder} also holds {', '.join(left)}: left out of the summary", file=sys.stderr
        )
    folder, base = plan.folder, plan.folder / "base"
    if at_a_time > 1:
        models.prepared(plan.recipe.model, base)  # once, before they all want it
    if is_main():
        write_json(folder / "comparison.json", {"plan": plan.plain()})

    def then(run: Run) -> Sequence[Run]:
        if is_main():
            write_curves(plan)
        return _after(plan, run)

    if at_a_time == 1:
        pool.in_turn(_first(plan), base, then)
    else:
        pool.in_processes(_first(plan), base, then, at_a_time)
    found = summary(folder)
    if is_main():
        write_json(folder / "comparison.json", {"plan": plan.plain(), "summary": found})
    return found


def _first(plan: Plan) -> list[Run]:
    """What is to be tuned, and the reported runs of what needs no tuning or is tuned; seed by seed."""
    ready = tuning_results.settled(plan)
    waiting = [method for method in plan.methods if method not in ready]
    tried = _missing([run for method in waiting for run in tuning_results.trials(plan, method)])
    done = [method for method in waiting if tuning_results.settle(plan, method)]
    return tried + _reported(plan, [m for m in plan.methods if m in ready or m in done])


def _after(plan: Plan, run: Run) -> list[Run]:
    """The reported runs of a method, where all that its tuning waited for has ended."""
    if plan.tuning is None or not run.trial:
        return []
    method = next(m for m in plan.methods if run.method in plan.tuning.tried(m))
    return _reported(plan, [method]) if tuning_results.settle(plan, method) else []


def _reported(plan: Plan, methods: Sequence[Method]) -> list[Run]:
    own = tuning_results.settled(plan)
    return _missing([plan.run(m, seed, own[m]) for seed in plan.reported for m in methods])


def _missing(runs: Sequence[Run]) -> list[Run]:
    """Those that are not complete; why they were not the last time is forgotten."""
    found = [run for run in runs if not (run.folder / "result.json").exists()]
    for run in found:
        (run.folder / "failed.json").unlink(missing_ok=True)
    return found

"""`tpo demo` without a language model: TPO beside GRPO, PPO and DG on one task with a dense reward."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tpo.cli.demo.dense_live import Live
from tpo.cli.demo.dense_results import conclusion, print_results, results_of
from tpo.cli.demo.shared import show

if TYPE_CHECKING:
    from tpo.lab.execution.jobs import Job

FOLDER = Path("results") / "demo"


def main(args: argparse.Namespace) -> int:
    """Train the methods one after the other; print the table, the verdicts and the report's path."""
    from tpo.lab import studies
    from tpo.lab.studies.catalog.dense import DEMO_FULL
    from tpo.lab.studies.request_checks import check_request
    from tpo.reports import write

    study = studies.get_study("demo")
    check_request(study, args.scale, args.seeds, first_seed=args.seed_offset)
    from tpo.lab.execution import runner  # with JAX

    request = runner.Request(study, args.scale, args.seeds, first_seed=args.seed_offset)
    jobs = request.jobs
    folder = Path(args.out or FOLDER)
    print(introduction(jobs))
    began = time.monotonic()
    try:
        with Live(jobs, results_of(folder, jobs)) as live:
            runner.run(request, folder, live.watch)
    except KeyboardInterrupt:
        kept = f"finished runs and the last checkpoint are kept in {folder}"
        print(f"\nstopped: {kept}. The same command resumes", file=sys.stderr)
        return 130
    results = results_of(folder, jobs)
    print_results(results, jobs[0].episodes)
    for line in verdicts(folder):
        print(line)
    if jobs[0].seeds > 1:
        print(
            f"Paired over {jobs[0].seeds} seeds; one that does not get there counts as "
            f"{jobs[0].episodes + 1} steps."
        )
    print(f"\n{conclusion(results, jobs[0].episodes)}\n{DEMO_FULL}")
    show(write(folder), time.monotonic() - began, args.open)
    return 0


def introduction(jobs: Sequence[Job]) -> str:
    """The task, what is equal for all methods, and what is not."""
    cell: Any = jobs[0].cell
    seeds = f"{jobs[0].seeds} seed{'s' if jobs[0].seeds > 1 else ''}"
    return (
        f"Task: reverse {cell.task.horizon} random bits. Each correct token is rewarded (a dense reward).\n"
        f"Equal for all: the model, {jobs[0].episodes} steps of {cell.budget.batch} prompts, "
        f"{seeds}.\nTPO and GRPO score {cell.method.rollout.group_size} candidates per token; "
        "PPO and DG take one rollout per prompt.\nA seed reaches 1% at the first step with an error below 1%."
    )


def verdicts(folder: Path) -> list[str]:
    """One line per rival: the verdict of the report and its p value, or why there is none."""
    from tpo.reports.summary import summarise

    (summary,) = (one for one in summarise(folder) if one["name"] == "demo")
    return [
        f"{one['status']}: {one['claim']}"
        + (f" (p = {one['against'][0]['p']:.1g})" if one["against"] else f". {one['detail']}")
        for one in summary["verdicts"]
    ]

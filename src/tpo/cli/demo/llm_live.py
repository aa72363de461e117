"""What `tpo demo --llm` shows while its runs train: held-out questions, and each method's answers."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any

from tpo.cli.demo.shared import Clock, bar
from tpo.llm.comparison.summary import read_run_logs

if TYPE_CHECKING:
    from tpo.llm.comparison.method import MethodSpec
    from tpo.llm.comparison.plan import Plan
    from tpo.llm.comparison.run_log import RunLog

INTERVAL = 2.0
"""Seconds between two looks at the files of the runs."""
IN_A_LINE = 3
"""Answers in a plain line."""
SHORT_BAR = 0.5
"""The bars of accuracy, relative to the usual length."""


class LiveRuns:
    """A table that follows the files of the runs, in a thread; plain lines if stdout is not a terminal."""

    def __init__(self, plan: Plan) -> None:
        """Runs that an earlier start finished do not count for the time left."""
        from rich.console import Console
        from rich.live import Live as Screen

        self.plan = plan
        self.console = Console()
        self.screen = Screen(console=self.console, auto_refresh=False)
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self._follow, daemon=True)
        logs = all_runs(read_run_logs(plan))
        first = steps([log for log in logs if log.result])
        self.clock = Clock(len(logs) * plan.recipe.steps, first, "starting")
        self.printed = {(log.run.folder, row["step"]) for log in logs for row in log.evaluations
                        if log.result}  # fmt: skip

    def __enter__(self) -> LiveRuns:
        if self.console.is_terminal:
            self.screen.__enter__()
        self.thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self.ended.set()
        self.thread.join()
        if self.console.is_terminal:
            self.screen.__exit__(kind, error, at)

    def _follow(self) -> None:
        while not self.ended.wait(INTERVAL):
            self.show()
        self.show()

    def show(self) -> None:
        """Redraw the table, or print a line for each new evaluation."""
        logs = read_run_logs(self.plan)
        left = self.clock.left(steps(all_runs(logs)))
        if self.console.is_terminal:
            self.screen.update(table(logs, left), refresh=True)
            return
        for log in all_runs(logs):
            for row in log.evaluations:
                if (log.run.folder, row["step"]) not in self.printed:
                    self._print(log, row, left)

    def _print(self, log: RunLog, row: Mapping[str, Any], left: str) -> None:
        self.printed.add((log.run.folder, row["step"]))
        print(f"{line(log, row)}  {left}", flush=True)


def all_runs(logs: Mapping[MethodSpec, Sequence[RunLog]]) -> list[RunLog]:
    """Of every method, seed by seed."""
    return [log for of_seed in zip(*logs.values(), strict=True) for log in of_seed]


def steps(logs: Iterable[RunLog]) -> int:
    """Optimiser steps of these runs so far."""
    return sum(log.rows[-1]["step"] for log in logs if log.rows)


def line(log: RunLog, row: Mapping[str, Any]) -> str:
    """An evaluation of a run in one line, with the first answers."""
    recipe = log.run.recipe
    answers = ", ".join(f"{question(x)} -> {answer(x)}" for x in row["examples"][:IN_A_LINE])
    return (
        f"{log.run.method.label:5} seed {recipe.seed} batch {row['step'] // recipe.epochs:3}/{recipe.batches}  "
        f"{row['greedy']:6.1%} right: {answers}"
    )


def question(example: Mapping[str, Any]) -> str:
    """The letters of a question."""
    return str(example["prompt"]).rpartition(" ")[2]


def answer(example: Mapping[str, Any]) -> str:
    """A completion with the mark of a right or a wrong one."""
    return f"{example['completion']} {'✓' if example['score'] == 1 else '✗'}"


def table(logs: Mapping[MethodSpec, Sequence[RunLog]], left: str) -> Any:
    """A row per held-out question with each method's newest answer; then accuracy and batches."""
    from rich.console import Group
    from rich.table import Table

    seed = all_runs(logs)[0].run.recipe.seed
    found = Table()
    for name in ("question", *(method.label for method in logs)):
        found.add_column(name)
    for row in answers([of_method[0] for of_method in logs.values()]):
        found.add_row(*row)
    found.add_section()
    found.add_row("right, all seeds", *(_accuracy(of_method) for of_method in logs.values()))
    found.add_row("batches", *(_batches(of_method) for of_method in logs.values()))
    return Group(f"greedy answers to held-out questions, seed {seed}. {left}", found)


def answers(logs: Sequence[RunLog]) -> list[list[str]]:
    """Rows of a question and the newest answer of each run, empty before its first evaluation."""
    newest = [log.evaluations[-1]["examples"] if log.evaluations else [] for log in logs]
    longest = max(newest, key=len)
    return [
        [question(x), *(answer(of_run[i]) if of_run else "" for of_run in newest)]
        for i, x in enumerate(longest)
    ]


def _accuracy(logs: Sequence[RunLog]) -> str:
    begun = [log.evaluations[-1]["greedy"] for log in logs if log.evaluations]
    if not begun:
        return "waiting"
    mean = sum(begun) / len(begun)
    return f"{mean:6.1%} {bar(SHORT_BAR * mean)}"


def _batches(logs: Sequence[RunLog]) -> str:
    recipe = logs[0].run.recipe
    done = [steps([log]) // recipe.epochs for log in logs]
    return f"{' '.join(map(str, done))} of {recipe.batches}"

"""`tpo demo`: TPO beside GRPO, PPO and DG on one task, with a live table, a verdict per rival and a report."""

from __future__ import annotations

import argparse
import sys
import time
import webbrowser
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

import numpy as np

from tpo.stats.curves import seed_steps, tail

if TYPE_CHECKING:
    from tpo.lab.execution.runner import PlannedJob
    from tpo.lab.training import TrainingProgress

FOLDER = Path("results") / "demo"
THRESHOLD = 0.01
"""A seed has solved the task once its error is below this."""
BAR = 24
"""Characters of a bar at 100% accuracy."""


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """`tpo demo`"""
    command = commands.add_parser(
        "demo", help="compare TPO with GRPO, PPO and DG on one task, in about two minutes"
    )
    command.add_argument("--seeds", type=int, help="seeds per method (default 4)")
    command.add_argument(
        "--seed-offset", type=int, default=0, metavar="N", help="first seed (default 0)"
    )
    command.add_argument("--scale", default="quick", help="smoke, quick or full (default quick)")
    command.add_argument("--out", metavar="DIR", help=f"output folder (default {FOLDER})")
    command.add_argument("--open", action="store_true", help="show the report in the browser")
    command.set_defaults(run=main)


def main(args: argparse.Namespace) -> int:
    """Train the methods one after the other; print the table, the verdicts and the report's path."""
    from tpo.lab import studies
    from tpo.lab.execution import runner
    from tpo.lab.studies.catalog.dense import DEMO_FULL

    study = studies.get_study("demo")
    request = runner.Request(study, args.scale, args.seeds, first_seed=args.seed_offset)
    jobs = runner.plan(request)
    folder = Path(args.out or FOLDER)
    print(introduction(jobs))
    began = time.monotonic()
    try:
        with Live(jobs) as live:
            runner.run(request, folder, live.watch)
    except KeyboardInterrupt:
        print(f"\nstopped; finished runs are in {folder}. The same command resumes",
              file=sys.stderr)  # fmt: skip
        return 130
    results = results_of(folder, jobs)
    print_results(results, jobs[0].episodes)
    for line in verdicts(folder):
        print(line)
    print(f"\n{conclusion(results, jobs[0].episodes)}\n{DEMO_FULL}")
    page = _report(folder)
    print(f"\n{time.monotonic() - began:.0f} s. Report: {page}")
    if args.open and not webbrowser.open(page.as_uri()):
        print("no browser could be started: open the file by hand")
    return 0


def introduction(jobs: Sequence[PlannedJob]) -> str:
    """The task, what is equal for all methods, and what is not."""
    cell: Any = jobs[0].job
    return (
        f"Task: reverse {cell.task.horizon} random bits. Each correct token is rewarded (a dense reward).\n"
        f"Equal for all: the model, {cell.budget.batch} prompts per episode, {jobs[0].episodes} episodes, "
        f"{jobs[0].seeds} seeds. TPO and GRPO score {cell.method.rollout.group_size} candidates per token; "
        "PPO and DG take one rollout per prompt."
    )


@dataclass(frozen=True)
class Result:
    """A method's errors [seeds, episodes] of the training rollouts, and what follows from them."""

    label: str
    errors: np.ndarray

    @property
    def steps(self) -> np.ndarray:
        """[seeds] episodes until the error is below 1%; one more than the budget for never."""
        episodes = np.arange(1, self.errors.shape[1] + 1)
        return seed_steps(episodes, self.errors, THRESHOLD)

    @property
    def solved(self) -> int:
        """Seeds whose error was below 1% in some episode."""
        return int((self.steps <= self.errors.shape[1]).sum())

    @property
    def final_error(self) -> float:
        """The mean error over the last tenth of the episodes and all seeds."""
        return float(tail(self.errors).mean())

    def cells(self, episodes: int) -> tuple[str, str, str, str]:
        """The method, its steps to 1% error (median and range), its solved seeds, its final error."""
        middle, first, last = (
            _steps(x, episodes) for x in (np.median(self.steps), self.steps.min(), self.steps.max())
        )
        span = middle if first == last else f"{middle} ({first} to {last})"
        return self.label, span, f"{self.solved} of {len(self.steps)}", f"{self.final_error:.1%}"


def _steps(x: float, episodes: int) -> str:
    return "never" if x > episodes else f"{x:.0f}"


def results_of(folder: Path, jobs: Sequence[PlannedJob]) -> list[Result]:
    """The results of finished runs, from their saved curves."""
    from tpo.storage.store import Store

    store = Store(folder)
    curves = {job.label: store.curves(job.job.key) for job in jobs}
    return [Result(label, found["error"]) for label, found in curves.items() if found]


def print_results(results: Sequence[Result], episodes: int) -> None:
    """The table of all methods."""
    from rich.console import Console
    from rich.table import Table

    table = Table(caption=f"never: not within {episodes} episodes; it counts as {episodes + 1}")
    for name in ("method", "episodes to 1% error: median (range)", "seeds solved", "final error"):
        table.add_column(name, justify="left" if name == "method" else "right")
    for result in results:
        table.add_row(*result.cells(episodes))
    Console().print(table)


def verdicts(folder: Path) -> list[str]:
    """One line per rival, as in the report."""
    from tpo.reports.summary import summarise

    (summary,) = (one for one in summarise(folder) if one["name"] == "demo")
    return [f"{one['status']}: {one['claim']}. {one['detail']}" for one in summary["verdicts"]]


def conclusion(results: Sequence[Result], episodes: int) -> str:
    """One sentence that compares the first method with the others."""
    first, *rivals = results
    others = ", ".join(f"{r.label} on {r.solved}" for r in rivals)
    seeds = f"{first.solved} of {len(first.steps)} seeds"
    middle = float(np.median(first.steps))
    speed = f", in a median of {middle:.0f} episodes" if middle <= episodes else ""
    return f"Within {episodes} episodes {first.label} solves the task on {seeds}{speed}; {others}."


def _report(folder: Path) -> Path:
    from tpo.reports import write

    return write(folder).resolve()


class Live:
    """A table that is updated during the runs; plain lines if stdout is not a terminal."""

    def __init__(self, jobs: Sequence[PlannedJob]) -> None:
        """A row per job."""
        from rich.console import Console
        from rich.live import Live as Screen

        self.console = Console()
        self.rows = {planned.label: MethodRow(planned.episodes) for planned in jobs}
        self.screen = Screen(console=self.console, auto_refresh=False)
        self.clock = Clock(sum(planned.episodes for planned in jobs))

    def __enter__(self) -> Live:
        if self.console.is_terminal:
            self.screen.__enter__()
            self.screen.update(self.table(), refresh=True)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        if self.console.is_terminal:
            self.screen.__exit__(kind, error, at)

    def watch(self, planned: PlannedJob, state: TrainingProgress | None) -> None:
        """Show the newest numbers of a method."""
        row = self.rows[planned.label]
        if state is not None and state.curves:
            row.take(state.episode, state.curves)
        if self.console.is_terminal:
            self.screen.update(self.table(), refresh=True)
        elif state is not None and state.curves and row.due():
            left = self.clock.left(self.done)
            line = f"{planned.label:5} episode {row.episode:4}/{row.total}  {row.words}"
            print(f"{line}  {left}", flush=True)

    @property
    def done(self) -> int:
        """Episodes of all methods so far."""
        return sum(row.episode for row in self.rows.values())

    def table(self) -> Any:
        """A row per method: episode, accuracy and its bar, solved seeds; the time left above."""
        from rich.table import Table

        found = Table(
            title=f"training accuracy per token, mean over seeds. {self.clock.left(self.done)}"
        )
        for column in ("method", "episode", "accuracy", "", "seeds solved"):
            found.add_column(column)
        for label, row in self.rows.items():
            found.add_row(label, f"{row.episode}/{row.total}", *row.cells)
        return found


@dataclass
class Clock:
    """The time that remains, from the episodes so far."""

    total: int
    began: float = field(default_factory=time.monotonic)

    def left(self, done: int) -> str:
        """In words."""
        if not done:
            return "compiling"
        seconds = (time.monotonic() - self.began) * (self.total - done) / done
        return f"about {seconds:.0f} s left"


class MethodRow:
    """One method's line."""

    def __init__(self, total: int) -> None:
        """No episode of `total` yet."""
        self.total = total
        self.episode = 0
        self.printed = 0
        self.result: Result | None = None

    def take(self, episode: int, curves: Mapping[str, np.ndarray]) -> None:
        """Take the curves so far."""
        self.episode = episode
        self.result = Result("", curves["error"])

    def due(self) -> bool:
        """Whether to print another plain line; a run prints ten."""
        if 10 * self.episode // self.total == self.printed:
            return False
        self.printed = 10 * self.episode // self.total
        return True

    @property
    def accuracy(self) -> float:
        """Of the last ten episodes, mean over seeds."""
        return 1 - float(self.result.errors[:, -10:].mean()) if self.result else 0.0

    @property
    def solved(self) -> str:
        """Solved seeds of all."""
        return f"{self.result.solved} of {len(self.result.errors)}" if self.result else ""

    @property
    def cells(self) -> tuple[str, str, str]:
        """Accuracy, its bar, solved seeds."""
        if not self.result:
            return "", "waiting", ""
        return f"{self.accuracy:.1%}", "█" * round(BAR * self.accuracy), self.solved

    @property
    def words(self) -> str:
        """The same for a plain line."""
        return f"accuracy {self.accuracy:6.1%}, {self.solved} seeds solved"

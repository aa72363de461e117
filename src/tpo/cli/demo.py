"""`tpo demo`: train TPO, GRPO, PPO and DG on sequence reversal with a sparse reward, with a live table."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from tpo.lab.execution.runner import PlannedJob
    from tpo.lab.training import TrainingProgress

FOLDER = Path("results") / "demo"


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """`tpo demo`"""
    command = commands.add_parser(
        "demo", help="compare TPO, GRPO, PPO and DG on a sparse reward in a few minutes"
    )
    command.add_argument("--seeds", type=int, help="seeds per method (default 4)")
    command.add_argument("--scale", default="quick", help="smoke or quick (default quick)")
    command.add_argument("--out", metavar="DIR", help=f"output folder (default {FOLDER})")
    command.set_defaults(run=main)


def main(args: argparse.Namespace) -> int:
    """Train the four methods one after the other with a live table; then print the report's path."""
    from tpo.cli.run_study import show_results
    from tpo.lab import studies
    from tpo.lab.execution import runner

    request = runner.Request(studies.get_study("demo"), args.scale, args.seeds)
    jobs = runner.plan(request)
    folder = Path(args.out or FOLDER)
    cell: Any = jobs[0].job
    print(
        f"Task: reverse a prompt of {cell.task.horizon} random bits. The reward is 1 for a fully correct "
        f"answer, else 0.\n{len(jobs)} methods, {jobs[0].seeds} seeds, {jobs[0].episodes} episodes "
        f"of {cell.budget.batch} prompts each."
    )
    began = time.monotonic()
    try:
        with Live(jobs) as live:
            runner.run(request, folder, live.watch)
    except KeyboardInterrupt:
        print(f"\nstopped; results so far are in {folder}. The same command resumes",
              file=sys.stderr)  # fmt: skip
        return 130
    show_results(folder, "demo")
    print(f"{time.monotonic() - began:.0f} s. Report: {_report(folder)}")
    return 0


def _report(folder: Path) -> Path:
    from tpo.reports import write

    return write(folder).resolve()


class Live:
    """A table that is updated during the runs; plain lines if stdout is not a terminal."""

    def __init__(self, jobs: list[PlannedJob]) -> None:
        """A row per job."""
        from rich.console import Console
        from rich.live import Live as Screen

        self.console = Console()
        self.rows = {planned.label: Row(planned.episodes) for planned in jobs}
        self.screen = Screen(console=self.console, auto_refresh=False)

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
            print(f"{planned.label:5} episode {row.episode:4}/{row.total}  {row.words}", flush=True)

    def table(self) -> Any:
        """A row per method: episode, error, bar, and the number of seeds with an error below 10%."""
        from rich.table import Table

        found = Table(title="exact-match error in training (last ten episodes), mean over seeds")
        for column in ("method", "episode", "error", "", "seeds below 10%"):
            found.add_column(column)
        for label, row in self.rows.items():
            found.add_row(label, f"{row.episode}/{row.total}", *row.cells)
        return found


class Row:
    """One method's line."""

    def __init__(self, total: int) -> None:
        """No episode of `total` yet."""
        self.total = total
        self.episode = 0
        self.printed = 0
        self.ends = np.ones(0)

    def take(self, episode: int, curves: Mapping[str, np.ndarray]) -> None:
        """Take each seed's mean error over its last ten episodes."""
        self.episode = episode
        self.ends = curves["error"][:, -10:].mean(1)

    def due(self) -> bool:
        """Whether to print another plain line; a run prints ten."""
        if 10 * self.episode // self.total == self.printed:
            return False
        self.printed = 10 * self.episode // self.total
        return True

    @property
    def cells(self) -> tuple[str, str, str]:
        if not len(self.ends):
            return "", "waiting", ""
        error = float(self.ends.mean())
        return (
            f"{error:.1%}",
            "█" * round(30 * error),
            f"{(self.ends < 0.1).sum()} of {len(self.ends)}",
        )

    @property
    def words(self) -> str:
        return f"error {self.ends.mean():6.1%}, {(self.ends < 0.1).sum()} of {len(self.ends)} seeds below 10%"

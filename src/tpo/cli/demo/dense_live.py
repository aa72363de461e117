"""The table that `tpo demo` shows while the methods train."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any

import numpy as np

from tpo.cli.demo.dense_results import Result
from tpo.cli.demo.shared import Clock, bar

if TYPE_CHECKING:
    from tpo.lab.execution.jobs import Job
    from tpo.lab.training import TrainingProgress


class Live:
    """A table that is updated during the runs; plain lines if stdout is not a terminal."""

    def __init__(self, jobs: Sequence[Job], finished: Sequence[Result] = ()) -> None:
        """A row per job; those that an earlier start finished do not count for the time left."""
        from rich.console import Console
        from rich.live import Live as Screen

        self.console = Console()
        self.rows = {planned.label: MethodRow(planned.episodes) for planned in jobs}
        self.screen = Screen(console=self.console, auto_refresh=False)
        for result in finished:
            self.rows[result.label].take(self.rows[result.label].total, {"error": result.errors})
        self.clock = Clock(sum(planned.episodes for planned in jobs), first=self.done)

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

    def watch(self, planned: Job, state: TrainingProgress | None) -> None:
        """Show the newest numbers of a method."""
        row = self.rows[planned.label]
        if state is not None and state.curves:
            row.take(state.episode, state.curves)
        elif state is not None:  # it begins, perhaps with the steps of an earlier start
            row.episode = state.episode
            self.clock.first += state.episode
        if self.console.is_terminal:
            self.screen.update(self.table(), refresh=True)
        elif state is not None and state.curves and row.due():
            left = self.clock.left(self.done)
            line = f"{planned.label:5} step {row.episode:4}/{row.total}  {row.words}"
            print(f"{line}  {left}", flush=True)

    @property
    def done(self) -> int:
        """Steps of all methods so far."""
        return sum(row.episode for row in self.rows.values())

    def table(self) -> Any:
        """A row per method: step, accuracy and its bar, seeds that reached 1% error; the time left above."""
        from rich.table import Table

        found = Table(
            title=f"training accuracy per token, mean over seeds. {self.clock.left(self.done)}"
        )
        for column in ("method", "step", "accuracy", "", "reached 1%"):
            found.add_column(column)
        for label, row in self.rows.items():
            found.add_row(label, f"{row.episode}/{row.total}", *row.cells)
        return found


class MethodRow:
    """One method's line."""

    def __init__(self, total: int) -> None:
        """No step of `total` yet."""
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
        """Of the last ten steps, mean over seeds."""
        return 1 - float(self.result.errors[:, -10:].mean()) if self.result else 0.0

    @property
    def reached(self) -> str:
        """Seeds that reached 1% error, of all."""
        return f"{self.result.reached} of {len(self.result.errors)}" if self.result else ""

    @property
    def cells(self) -> tuple[str, str, str]:
        """Accuracy, its bar, seeds that reached 1% error."""
        if not self.result:
            return "", "waiting", ""
        return f"{self.accuracy:.1%}", bar(self.accuracy), self.reached

    @property
    def words(self) -> str:
        """The same for a plain line."""
        return f"accuracy {self.accuracy:6.1%}, {self.reached} seeds reached 1% error"

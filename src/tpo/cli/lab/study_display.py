"""The terminal display of studies: a line per running job, then a table and verdicts."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from tpo.cli.lab.plain_progress import PlainProgress
from tpo.reports.wording import at_end, reached

if TYPE_CHECKING:
    from tpo.lab.execution.jobs import Job
    from tpo.lab.execution.scheduler import Watcher
    from tpo.lab.training import TrainingProgress


def last_error(curves: Mapping[str, np.ndarray]) -> float:
    """The latest mean error: on held-out contexts if measured, else of the training rollouts."""
    for name in ("test_error", "error_after", "expected_error", "error"):
        y = curves.get(name)
        if y is not None:
            measured = y[:, ~np.isnan(y).all(0)]
            if measured.shape[1]:
                return float(measured[:, -1].mean())
    return float("nan")


@contextmanager
def watching(jobs: int) -> Iterator[Watcher]:
    """Progress bars on stderr, one for all jobs and one per running job; a line for each finished job.

    Where stderr is not a terminal, plain lines at intervals.
    """
    if not sys.stderr.isatty():
        yield PlainWatch(jobs)
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bars

    console = Console(stderr=True)
    columns = (
        TextColumn("{task.description:32}"), BarColumn(), MofNCompleteColumn(),
        TextColumn("{task.fields[note]}"), TimeRemainingColumn(),
    )  # fmt: skip
    with Bars(*columns, console=console, transient=True) as bars:
        overall = bars.add_task("all", total=jobs, note="")
        running: dict[str, Running] = {}

        def watch(planned: Job, state: TrainingProgress | None) -> None:
            key = planned.key
            if state is None:
                ended = running.pop(key, None)
                words, seconds = ended.words if ended else ("done", 0.0)
                console.print(f"{planned.title}: {words}, {seconds:.0f} s", highlight=False)
                if ended:
                    bars.remove_task(ended.bar)
                bars.advance(overall)
                return
            if key not in running:
                bar = bars.add_task(planned.title, total=planned.episodes, note="compiling")
                running[key] = Running(bar, time.monotonic())
            running[key].error = last_error(state.curves)
            note = f"{running[key].words[0]}, {state.rate:.1f}/s" if state.rate else "compiling"
            bars.update(running[key].bar, completed=state.episode, note=note)

        yield watch


@dataclass
class PlainWatch:
    """Lines of a study's progress: `2 of 8 runs, TPO H=7: 40/500, error 0.312, about 20 s left`."""

    jobs: int
    done: int = 0
    lines: PlainProgress = field(default_factory=PlainProgress)

    def __call__(self, planned: Job, state: TrainingProgress | None) -> None:
        """The job's new state; None for a finished one."""
        if state is None:
            self.done += 1
            seconds = f", {self.lines.seconds(planned.title):.0f} s"
            print(
                f"{planned.title}: done{seconds} ({self.done} of {self.jobs} runs)", file=sys.stderr
            )
        elif state.episode < planned.episodes:
            error = last_error(state.curves)
            words = "compiling" if np.isnan(error) else f"error {error:.3f}"
            self.lines.show(planned.title, state.episode, planned.episodes, words)


@dataclass
class Running:
    """A running job: its bar, its start, its latest error."""

    bar: Any
    began: float
    error: float = float("nan")

    @property
    def words(self) -> tuple[str, float]:
        """Its latest error as text, and its seconds so far."""
        known = "done" if np.isnan(self.error) else f"error {self.error:.3f}"
        return known, time.monotonic() - self.began


OWN = "own run"
"""The source of a run of your own."""
HEADINGS = {
    "metric": "metric", "published": "published", "ours": "ours", "last100": "last 100",
    "median": "median", "iqm": "IQM [95%]", "solved": "", "reached": "", "steps_median": "median steps",
    "steps_to_threshold": "steps",
}  # fmt: skip
"""Columns, and their headings where these do not depend on the study."""
OF_SPEED, OF_ENDS = ("reached", "steps_median"), ("solved",)
"""Columns of a study that asks for steps, and of one that asks for final errors."""


def show(summary: Mapping[str, Any]) -> None:
    """Print a study's table and verdicts."""
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    console = Console()
    rows = [_filled(row) for row in summary["table"]["rows"]]
    if not rows:
        console.print(f"{summary['title']}: no numbers yet")
        return
    axes = dict.fromkeys(key for row in rows for key in row["coords"])
    left_out = OF_ENDS if summary["asks"] == "steps" else OF_SPEED
    used = [
        name
        for name in HEADINGS
        if name not in left_out and any(row.get(name) is not None for row in rows)
    ]
    metrics = dict.fromkeys(row["metric"] for row in rows)
    if len(metrics) == 1:
        used.remove("metric")
    table = Table(title=_title(summary), caption=_caption(summary, list(metrics)), padding=(0, 0))
    headings = HEADINGS | {"solved": at_end(rows), "reached": reached(rows)}
    if "published" not in used and len(metrics) == 1:
        headings["ours"] = rows[0]["metric"]
    for name in (*axes, "method", *used):
        justify: Any = "left" if name in ("method", "metric") else "right"
        table.add_column(headings.get(name, name), justify=justify)
    for row in rows:
        values = {**row["coords"], **row}
        table.add_row(*(escape(cell_text(values.get(name))) for name in (*axes, "method", *used)))
    console.print(table)
    for verdict in summary["verdicts"]:
        words = f"{verdict['status']}: {verdict['claim']}. {verdict['detail']}"
        console.print(escape(words), highlight=False)


def _title(summary: Mapping[str, Any]) -> str:
    """Of a study with its source and scale, which a run of your own has not."""
    if summary["source"] == OWN:
        return str(summary["title"])
    return f"{summary['title']} ({summary['source']}), scale {summary['scale']}"


def _filled(row: Mapping[str, Any]) -> dict[str, Any]:
    """The row with its interval, and with its counts of seeds as text."""
    found = dict(row)
    if row.get("iqm_low") is not None:
        found["iqm"] = f"{row['iqm']:.2g} [{row['iqm_low']:.2g}, {row['iqm_high']:.2g}]"
    for name in ("solved", "reached"):
        if row.get(name) is not None:
            found[name] = f"{row[name]} of {row['n']}"
    return found


def _caption(summary: Mapping[str, Any], metrics: list[str]) -> str:
    done, cells = summary["progress"]["cells_done"], summary["progress"]["cells"]
    words = [f"{done} of {cells} runs done, {summary['settings'].get('seeds')} seeds"]
    if len(metrics) == 1:
        both = any(row.get("published") for row in summary["table"]["rows"])
        words.append(f"{'published and ours: ' if both else ''}{metrics[0]}, mean over seeds")
    if any(row.get("solved") is not None for row in summary["table"]["rows"]):
        words.append("median and interquartile mean of the final error in percent")
        words.append("last 100: the error over the last 100 episodes (a tenth of shorter runs)")
        if summary["verdicts"]:
            words[-1] += ", which verdicts use"
    return "; ".join(words)


def cell_text(value: Any) -> str:
    """A value as text: three significant digits, a dash for a missing value."""
    if value is None:
        return "–"
    if isinstance(value, float):
        return f"{value:.3g}"
    return str(value)

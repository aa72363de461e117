"""Progress and the table of `tpo run` without a study."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from tpo.lab.training import Cell, TrainingProgress
    from tpo.storage.store import Curves, Store


def run_all(
    cells: Mapping[str, Cell], store: Store | None, args: argparse.Namespace
) -> dict[str, Curves]:
    """The curves of every cell, with a line of progress for each."""
    from tpo.lab.training import Pace, run

    pace = Pace(chunk=args.chunk, save_every=args.save_every)
    curves: dict[str, Curves] = {}
    with _progress() as progress:
        for name, cell in cells.items():
            line = progress.add_task(name, total=cell.budget.episodes, rate="", error="compiling")

            def watch(state: TrainingProgress, line: Any = line) -> None:
                error = float(_errors(state.curves)[:, -1].mean())
                rate = f"{state.rate:.1f}/s"
                done = state.episode
                progress.update(line, completed=done, rate=rate, error=f"error {error:.4f}")

            curves[name] = run(cell, store, watch, pace)
            progress.update(line, completed=cell.budget.episodes, error="done")
    return curves


@contextmanager
def _progress() -> Iterator[Any]:
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn("{task.description:14}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rate]}"),
        TextColumn("{task.fields[error]}"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True)) as progress:
        yield progress


def _errors(curves: Curves) -> np.ndarray:
    """The error to show: on held-out contexts if measured, else of the training rollouts."""
    test = curves.get("test_error")
    if test is None:
        return curves["error"]
    measured = test[:, ~np.isnan(test).all(0)]
    return measured if measured.shape[1] else curves["error"]


def show(curves: Mapping[str, Curves]) -> None:
    """A table of the errors of each method, over seeds."""
    from rich.console import Console
    from rich.table import Table

    table = Table(title="error, over seeds")
    for column in ("method", "last", "median", "last 100", "best", "steps to 1%"):
        table.add_column(column, justify="left" if column == "method" else "right")
    for name, found in curves.items():
        table.add_row(name, *_row(_errors(found)))
    Console().print(table)


def _row(errors: np.ndarray) -> tuple[str, ...]:
    mean = errors.mean(0)
    below = np.flatnonzero(mean < 0.01)
    numbers = (mean[-1], np.median(errors[:, -1]), mean[-100:].mean(), mean.min())
    return (*(f"{x:.4f}" for x in numbers), str(below[0] + 1) if len(below) else "never")

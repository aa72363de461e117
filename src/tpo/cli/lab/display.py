"""Progress and the table of `tpo run` without a study."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from tpo.cli.lab.plain_progress import PlainProgress

if TYPE_CHECKING:
    from tpo.cli.lab.logs import Log
    from tpo.lab.training import Cell, TrainingProgress
    from tpo.storage.store import Curves, Store

Shown = Callable[[str, int, int, str], None]
"""Shows a method, its episode, its number of episodes, and words on how it does."""


def run_all(
    cells: Mapping[str, Cell], store: Store | None, args: argparse.Namespace, log: Log
) -> dict[str, Curves]:
    """The curves of every cell, with its progress shown and logged."""
    from tpo.lab.training import Pace, run

    pace = Pace(chunk=args.chunk, save_every=args.save_every)
    curves: dict[str, Curves] = {}
    with progress() as show:
        for name, cell in cells.items():
            total = cell.budget.episodes

            def watch(state: TrainingProgress, name: str = name, total: int = total) -> None:
                error = float(_errors(state.curves)[:, -1].mean())
                show(name, state.episode, total, f"error {error:.4f}, {state.rate:.1f} episodes/s")
                log.add(name, state.curves)

            show(name, 0, total, "compiling")
            with _cost(cell, store):
                curves[name] = run(cell, store, watch, pace)
            log.add(name, curves[name])
            show(name, total, total, f"error {float(_errors(curves[name])[:, -1].mean()):.4f}")
    return curves


@contextmanager
def _cost(cell: Cell, store: Store | None) -> Iterator[None]:
    """Add the seconds to what the store keeps of the run's cost, and the machine, if the run is new."""
    from tpo.declarations import manifest
    from tpo.lab.execution.worker import Worker

    if store is None or store.curves(cell.key) is not None:
        yield
        return
    began = time.monotonic()
    try:
        yield
    finally:
        device = Worker(0.0).machine().device
        origin = manifest.provenance(cell.budget.first_seed, cell.budget.seeds, device)
        store.add_cost(cell.key, time.monotonic() - began, origin)


@contextmanager
def progress() -> Iterator[Shown]:
    """Bars on a terminal; plain lines elsewhere."""
    if not sys.stderr.isatty():
        yield PlainProgress().show
        return
    with _bars() as bars:
        rows: dict[str, Any] = {}

        def show(name: str, done: int, total: int, words: str) -> None:
            if name not in rows:
                rows[name] = bars.add_task(name, total=total, words=words)
            bars.update(rows[name], completed=done, words=words)

        yield show


def _bars() -> Any:
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
        TextColumn("{task.fields[words]}"),
        TimeRemainingColumn(),
    )
    return Progress(*columns, console=Console(stderr=True))


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
        table.add_row(_short(name), *_row(_errors(found)))
    Console().print(table)


def _short(name: str) -> str:
    """The method as it was written; without the folder of a file of the user's."""
    from tpo.user_code import class_name, split_options

    first, *options = split_options(name)
    return ":".join([class_name(first), *options])


def _row(errors: np.ndarray) -> tuple[str, ...]:
    mean = errors.mean(0)
    below = np.flatnonzero(mean < 0.01)
    numbers = (mean[-1], np.median(errors[:, -1]), mean[-100:].mean(), mean.min())
    return (*(f"{x:.4f}" for x in numbers), str(below[0] + 1) if len(below) else "never")

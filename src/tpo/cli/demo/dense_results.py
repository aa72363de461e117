"""What `tpo demo` measured, from saved curves: steps to 1% error, seeds that reached it, and final error."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from tpo.stats.curves import MedianSteps, seed_steps, tail

if TYPE_CHECKING:
    from tpo.lab.execution.jobs import Job

THRESHOLD = 0.01
"""The error that counts as learned."""


@dataclass(frozen=True)
class Result:
    """A method's errors [seeds, steps] of the training rollouts, and what follows from them."""

    label: str
    errors: np.ndarray

    @property
    def steps(self) -> np.ndarray:
        """[seeds] steps until the error is below 1%; one more than the budget for never."""
        episodes = np.arange(1, self.errors.shape[1] + 1)
        return seed_steps(episodes, self.errors, THRESHOLD)

    @property
    def median(self) -> MedianSteps:
        """The median seed's steps, infinite if at most half get there, and how many do; as in reports."""
        return MedianSteps.of(np.where(self.steps > self.errors.shape[1], np.inf, self.steps))

    @property
    def reached(self) -> int:
        """Seeds whose error was below 1% at some step."""
        return self.median.reached

    @property
    def final_error(self) -> float:
        """The mean error over the last tenth of the steps and all seeds."""
        return float(tail(self.errors).mean())

    def cells(self, episodes: int) -> tuple[str, str, str, str]:
        """The method, its steps to 1% error (median and range), how many seeds reached it, its final error."""
        middle, first, last = (
            _steps(x, episodes) for x in (self.median.value, self.steps.min(), self.steps.max())
        )
        span = middle if first == last else f"{middle} ({first} to {last})"
        reached = f"{self.reached} of {_seeds(len(self.steps))}"
        return self.label, span, reached, f"{self.final_error:.1%}"


def _steps(x: float, episodes: int) -> str:
    return f"over {episodes}" if x > episodes else f"{x:.0f}"


def _seeds(n: int) -> str:
    return f"{n} seed{'s' if n > 1 else ''}"


def results_of(folder: Path, jobs: Sequence[Job]) -> list[Result]:
    """The results of finished runs, from their saved curves."""
    from tpo.storage.store import Store

    store = Store(folder)
    curves = {job.label: store.curves(job.key) for job in jobs}
    return [Result(label, found["error"]) for label, found in curves.items() if found]


def print_results(results: Sequence[Result], episodes: int) -> None:
    """The table of all methods."""
    from rich.console import Console
    from rich.table import Table

    table = Table()
    for name in ("method", "steps to 1% error: median (range)", "reached 1%", "final error"):
        table.add_column(name, justify="left" if name == "method" else "right")
    for result in results:
        table.add_row(*result.cells(episodes))
    Console().print(table)


def conclusion(results: Sequence[Result], episodes: int) -> str:
    """One sentence that compares the first method with the others."""
    first, *rivals = results
    others = ", ".join(f"{r.label} on {r.reached}" for r in rivals)
    seeds = f"{first.reached} of {_seeds(len(first.steps))}"
    middle = first.median.value
    speed = f", in a median of {middle:.0f}" if middle <= episodes else ""
    return f"Within {episodes} steps {first.label} reaches 1% error on {seeds}{speed}; {others}."

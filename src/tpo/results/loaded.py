"""Loaded: one part of a study as the store has it now, finished or not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tpo.results.files import read_json
from tpo.results.statistics import seed_steps, tail
from tpo.results.store import Curves, Store
from tpo.results.verdicts import Outcome


@dataclass(frozen=True)
class Loaded:
    """The curves of a part: those of the finished run, else of its last checkpoint, else none."""

    key: str
    coords: Mapping[str, Any]
    method: str
    label: str
    curves: Curves
    done: bool
    seconds: float

    @property
    def seeds(self) -> int:
        return len(next(iter(self.curves.values()))) if self.curves else 0

    def curve(self, name: str) -> tuple[np.ndarray, np.ndarray]:
        """(x, [seeds, points]) of a measure; episodes at which nothing was measured are left out.

        No measure is negative; what rounding left below zero is zero.
        """
        y = self.curves.get(name)
        if y is None or y.ndim != 2:
            return np.zeros(0, int), np.zeros((self.seeds, 0))
        measured = ~np.isnan(y).all(0)
        return np.flatnonzero(measured) + 1, np.maximum(y[:, measured], 0)

    def outcome(self, measure: str, threshold: float) -> Outcome:
        """What the verdicts see: "end" and "steps" of the measure, or the end of another one."""

        def values(metric: str) -> np.ndarray:
            if metric == "steps":
                return seed_steps(*self.curve(measure), threshold)
            return tail(self.curve(measure if metric == "end" else metric)[1])

        return Outcome(self.coords, self.method, self.label, self.done, values)


def load(store: Store, part: Any) -> Loaded:
    """The part as the store has it; `part` is a `tpo.studies.manifest.Part`."""
    curves = store.curves(part.key)
    done = curves is not None
    if curves is None:
        saved = store.checkpoint(part.key)
        curves = saved.curves if saved else {}
    seconds = cost(store.folder, part.key)
    return Loaded(part.key, part.coords, part.method, part.label, curves, done, seconds)


def cost(folder: Path, key: str) -> float:
    """Seconds spent on a run so far, over all its resumptions."""
    found = read_json(folder / key / "cost.json")
    return float(found["seconds"]) if found else 0.0

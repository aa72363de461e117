"""Series: one measure of a run, its curve thinned, and in full what tables and verdicts read of each seed.

Tables, verdicts and figures see series only, so that what they show of a store and of the few kilobytes
that are kept of it is the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tpo.stats.curves import rerun_steps, seed_steps, steps_to, tail
from tpo.stats.intervals import Interval, iqm, standard_error
from tpo.storage.numbers import number, plain
from tpo.storage.store import Curves

POINTS = 120
"""Most points of a thinned curve."""
CURVES = ("mean", "se", "median", "iqm")
SEEDS = ("last", "end", "best")


@dataclass(frozen=True)
class Steps:
    """When a curve first falls below a threshold, infinite for never.

    mean: of the mean over seeds, which is the paper's number; interval: where a repetition's would
    fall; seeds: [seeds] each seed's own.
    """

    mean: float
    interval: Interval
    seeds: np.ndarray

    @classmethod
    def of(cls, x: np.ndarray, y: np.ndarray, threshold: float) -> Steps:
        """From the whole curves [seeds, points]."""
        first = steps_to(x, y.mean(0), threshold)
        own = seed_steps(x, y, threshold)
        seeds = np.where(own > x[-1], np.inf, own)
        mean = np.inf if first is None else float(first)
        return cls(mean, rerun_steps(x, y, threshold), seeds)

    def to_json(self) -> dict[str, Any]:
        """Plain values, None for never; no interval for a single seed."""
        known = None if np.isnan(self.interval.low) else plain(self.interval)
        return {"mean": number(self.mean), "interval": known, "seeds": plain(self.seeds)}

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> Steps:
        """What `to_json` gave."""
        known = found["interval"]
        low, high = (np.nan, np.nan) if known is None else _numbers(known, np.inf)
        return cls(
            float(_numbers([found["mean"]], np.inf)[0]),
            Interval(float(low), float(high)),
            _numbers(found["seeds"], np.inf),
        )


@dataclass(frozen=True)
class Series:
    """A measure over seeds.

    x, mean, se, median, iqm: [points] of the thinned curves. last, end, best: [seeds] the last point, the
    mean of the last 100 (a tenth of shorter curves) and the lowest of each seed's whole curve. lowest: of
    the mean over seeds. at: {x: [seeds]} at the episodes that a published number is about. curves:
    [seeds, points] thinned, where the store is at hand.
    """

    x: np.ndarray
    mean: np.ndarray
    se: np.ndarray
    median: np.ndarray
    iqm: np.ndarray
    last: np.ndarray
    end: np.ndarray
    best: np.ndarray
    lowest: float
    steps: Steps | None = None
    at: Mapping[int, np.ndarray] = field(default_factory=dict)
    curves: np.ndarray | None = None

    @classmethod
    def of(
        cls, x: np.ndarray, y: np.ndarray, threshold: float | None = None, at: Iterable[int] = ()
    ) -> Series:
        """From whole curves [seeds, points]."""
        points, few = thinned(x, y)
        return cls(
            points,
            few.mean(0),
            standard_error(few),
            np.median(few, axis=0),
            iqm(few.T),
            y[:, -1],
            tail(y),
            y.min(1),
            float(y.mean(0).min()),
            None if threshold is None else Steps.of(x, y, threshold),
            {e: y[:, int(np.flatnonzero(x == e)[0])] for e in at if e in x},
            few,
        )

    @property
    def seeds(self) -> int:
        """How many."""
        return len(self.last)

    def to_json(self) -> dict[str, Any]:
        """Plain values; the curves of single seeds are left out."""
        found: dict[str, Any] = {"x": [int(v) for v in self.x]}
        found |= {name: plain(getattr(self, name), 4) for name in CURVES}
        found |= {name: plain(getattr(self, name)) for name in SEEDS}
        found["lowest"] = number(self.lowest)
        found["at"] = {str(e): plain(values) for e, values in self.at.items()}
        if self.steps is not None:
            found["steps"] = self.steps.to_json()
        return found

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> Series:
        """What `to_json` gave; lists of unequal length are refused."""
        for names in (("x", *CURVES), SEEDS):
            if len({len(found[name]) for name in names}) != 1:
                raise ValueError(f"{', '.join(names)} are not equally long")
        return cls(
            np.array(found["x"], int),
            **{name: _numbers(found[name]) for name in (*CURVES, *SEEDS)},
            lowest=float(_numbers([found["lowest"]])[0]),
            steps=Steps.from_json(found["steps"]) if "steps" in found else None,
            at={int(e): _numbers(values) for e, values in found["at"].items()},
        )


def _numbers(values: Any, missing: float = np.nan) -> np.ndarray:
    return np.array([missing if v is None else v for v in values], float)


def measured(curves: Curves, name: str) -> tuple[np.ndarray, np.ndarray] | None:
    """(x, [seeds, points]) of a measure where it was measured; None where it never was.

    No measure is negative; what rounding left below zero is zero.
    """
    y = curves.get(name)
    if y is None or y.ndim != 2:
        return None
    known = ~np.isnan(y).all(0)
    if not known.any():
        return None
    return np.flatnonzero(known) + 1, np.maximum(np.asarray(y[:, known], float), 0)


def thinned(x: np.ndarray, y: np.ndarray, points: int = POINTS) -> tuple[np.ndarray, np.ndarray]:
    """At most `points` points, each the mean over a window and placed at the window's last x."""
    if len(x) <= points:
        return x, np.asarray(y, float)
    edges = np.linspace(0, len(x), points + 1).round().astype(int)
    totals = np.add.reduceat(np.asarray(y, float), edges[:-1], axis=1)
    return x[edges[1:] - 1], totals / np.diff(edges)

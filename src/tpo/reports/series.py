"""Series: one measure of a run as a thinned curve, with the per-seed numbers that tables and verdicts need.

Tables, verdicts and figures read series only. So they show the same for a whole store as for the few kilobytes
of it that are kept as evidence.
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
"""The maximum length of a thinned curve."""
CURVES = ("mean", "se", "median", "iqm")
"""Statistics over seeds, one value per point."""
SEEDS = ("last", "end", "best")
"""Numbers of a whole curve, one value per seed."""


@dataclass(frozen=True)
class Steps:
    """The first x at which a curve is below a threshold; infinite for never.

    mean: of the mean over seeds, which is the paper's number. interval: the 95% range of `mean` in a
    repetition. seeds: [seeds] of each seed.
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
        """Plain values; None for never, and for the interval of a single seed."""
        known = None if np.isnan(self.interval.low) else plain(self.interval)
        return {"mean": number(self.mean), "interval": known, "seeds": plain(self.seeds)}

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> Steps:
        """The inverse of `to_json`."""
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

    x, mean, se, median, iqm: [points] of the thinned curves. last, end, best: [seeds] of each seed's whole
    curve the last point, the mean of the last 100 points (a tenth of shorter curves) and the lowest point.
    lowest: the lowest point of the mean over seeds. at: {x: [seeds]} at the episodes of published numbers.
    curves: [seeds, points] thinned; None for a series that was read from evidence.
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
        """The number of seeds."""
        return len(self.last)

    def to_json(self) -> dict[str, Any]:
        """Plain values, without the curves of single seeds."""
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
        """The inverse of `to_json`; lists of unequal length are an error."""
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
    """(x, [seeds, points]) of a measure at the points where it was measured; None if it never was.

    No measure is negative: values that rounding left below zero become zero.
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

"""The rows of a study's table, ours beside the published numbers, as plain values."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from tpo.lab.studies.published import Published
from tpo.lab.studies.study import Study
from tpo.reports.load import CellResult
from tpo.reports.series import Series
from tpo.stats.curves import solved
from tpo.stats.intervals import Interval, interval, iqm, rerun
from tpo.stats.verdicts import LEAST
from tpo.storage.numbers import number

COLUMNS = (
    "method", "metric", "published", "ours", "low", "high", "agreement", "mean", "median", "iqm",
    "iqm_low", "iqm_high", "best", "last100", "solved", "n", "steps_to_threshold", "device",
)  # fmt: skip
"""Columns after the coordinates. ours: our value of the published metric; low and high: its range in a
repetition; agreement: whether the published number lies there. The statistics are of the error in percent:
mean to iqm_high over seeds at the last episode, best the lowest point of the mean curve, last100 the mean
over the last 100 episodes, solved the seeds below the threshold at the last episode."""

AGREES, HIGHER, LOWER = "agrees", "ours is higher", "ours is lower"
NEVER = "never"


class Ours(NamedTuple):
    """Our value of a published metric and its range in a repetition; infinite for never."""

    value: float
    interval: Interval
    whole: bool = False

    @classmethod
    def mean(cls, values: np.ndarray) -> Ours:
        """The mean over seeds."""
        return cls(float(values.mean()), rerun(values))

    def columns(self, seeds: int, published: Published | None) -> dict[str, Any]:
        """ours, low, high, and agreement with the published number: None with fewer than LEAST seeds."""
        names = ("ours", "low", "high")
        values = (self.value, *self.interval)
        shown = {k: _shown(v, self.whole) for k, v in zip(names, values, strict=True)}
        if published is None or seeds < LEAST:
            return {**shown, "agreement": None}
        return {**shown, "agreement": agreement(published, *self.interval)}


def agreement(published: Published, low: float, high: float) -> str:
    """Does the published number, as it was rounded, lie between low and high?"""
    least, most = published.range
    if least <= high and low <= most:
        return AGREES
    return HIGHER if low > most else LOWER


def _shown(value: float, whole: bool) -> float | str | None:
    if whole and np.isfinite(value):
        return int(value)
    return NEVER if np.isposinf(value) else number(value)


def rows(
    study: Study, cells: Sequence[CellResult], published: Sequence[Published]
) -> list[dict[str, Any]]:
    """A row per cell and published metric; "final error %" for a cell without a published number."""
    found = []
    for cell in cells:
        series = cell.series.get(study.measures[0].key)
        if series is None:
            continue
        fitting = [p for p in published if p.fits(study.name, cell.coords, cell.method)]
        known: list[Published | None] = [*fitting] or [None]
        statistics = _statistics(study, series)
        for reference in known:
            metric = reference.metric if reference else "final error %"
            row = {"coords": dict(cell.coords), "method": cell.label, "metric": metric}
            ours = _ours(metric, study, cell)
            finished = cell.seeds if cell.done else 0
            found.append({
                **row,
                "published": reference.value if reference else None,
                **(ours.columns(finished, reference) if ours else {"ours": None}),
                **statistics,
                "device": cell.origin.get("device"),
                "done": cell.done,
            })  # fmt: skip
    return sorted(found, key=_rank) if study.ranked else found


def _rank(row: Mapping[str, Any]) -> float:
    """The final error; a row without one comes last."""
    return float("inf") if row["last100"] is None else float(row["last100"])


def _statistics(study: Study, series: Series) -> dict[str, Any]:
    final = 100 * series.last
    low, high = interval([final])
    low_end, high_end = rerun(100 * series.end)
    return {
        "mean": number(final.mean()),
        "median": number(np.median(final)),
        "iqm": number(iqm(final)),
        "iqm_low": number(low),
        "iqm_high": number(high),
        "best": number(100 * series.lowest),
        "last100": number(100 * series.end.mean()),
        "last100_low": number(low_end),
        "last100_high": number(high_end),
        "solved": solved(series.last, study.threshold),
        "n": series.seeds,
        "steps_to_threshold": _shown(series.steps.mean, whole=True) if series.steps else None,
    }


def _ours(metric: str, study: Study, cell: CellResult) -> Ours | None:
    """Our value of a published metric; None if it does not follow from the series."""
    series = cell.series[study.measures[0].key]
    if metric == "final error %":
        return Ours.mean(100 * series.last)
    steps = re.fullmatch(r"steps to ([\d.]+)%", metric)
    if steps and series.steps and float(steps[1]) / 100 == study.threshold:
        return Ours(series.steps.mean, series.steps.interval, whole=True)
    at = re.fullmatch(r"(error|all-fail groups) % at (\d+)", metric)
    if not at:
        return None
    error = at[1] == "error"
    values = (series if error else cell.series["success"]).at.get(int(at[2]))
    if values is None:
        return None
    return Ours.mean(100 * values if error else 100 * (1 - values))


def columns(found: Sequence[Mapping[str, Any]]) -> list[str]:
    """The coordinates of these rows, then COLUMNS."""
    axes = dict.fromkeys(key for row in found for key in row["coords"])
    return [*axes, *COLUMNS]

"""The rows of a study's table, ours beside the published numbers, as plain values."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from tpo.declarations.published import Published
from tpo.declarations.study import Study
from tpo.reports.load import CellResult
from tpo.reports.series import Series
from tpo.stats.curves import MedianSteps, solved
from tpo.stats.intervals import Interval, interval, iqm
from tpo.stats.repetition import FAILED, agreement, repeated_steps, repetition, splits
from tpo.stats.significance import LEAST
from tpo.storage.numbers import number

COLUMNS = (
    "method", "metric", "published", "ours", "low", "high", "agreement", "mean", "median", "iqm",
    "iqm_low", "iqm_high", "best", "last100", "solved", "failed", "n", "steps_to_threshold",
    "steps_median", "steps_low", "steps_high", "reached", "threshold", "device",
)  # fmt: skip
"""Columns after the coordinates. ours: our value of the published metric; low and high: its range in a
repetition; agreement: the verdict of `tpo.stats.repetition`. The statistics are of the error in percent:
mean to iqm_high over seeds at the last episode, best the lowest point of the mean curve, last100 the mean
over the last 100 episodes, solved the seeds below the threshold at the last episode, failed those above 90%.
steps_to_threshold is of the mean curve (the paper's definition), steps_median of the median seed; reached are
the seeds below the threshold (in percent) at some episode."""

NEVER = "never"
FINAL = "final error %"
Splits = Mapping[str, bool]
"""By metric, whether seeds of a study fail completely or not at all."""


class Ours(NamedTuple):
    """Our value of a published metric and its range in a repetition; infinite for never."""

    value: float
    interval: Interval
    whole: bool = False

    @classmethod
    def mean(cls, values: np.ndarray) -> Ours:
        """The mean over seeds."""
        low, high = repetition(values)
        return cls(float(values.mean()), Interval(float(low), float(high)))

    @classmethod
    def percent(cls, shares: np.ndarray, split: bool = False) -> Ours:
        """The mean over seeds of errors or accuracies, in percent."""
        most = 1 if (shares <= 1).all() else np.inf
        low, high = 100 * np.clip(repetition(shares, split), 0, most)
        return cls(float((100 * shares).mean()), Interval(float(low), float(high)))

    def columns(self, seeds: int, published: Published | None) -> dict[str, Any]:
        """ours, low, high, and the verdict on the published number: None with fewer than LEAST seeds."""
        names = ("ours", "low", "high")
        values = (self.value, *self.interval)
        shown = {k: _shown(v, self.whole) for k, v in zip(names, values, strict=True)}
        if published is None or seeds < LEAST:
            return {**shown, "agreement": None}
        return {**shown, "agreement": agreement(published.range, published.metric, self.interval)}


def _shown(value: float, whole: bool) -> float | str | None:
    if whole and np.isfinite(value):
        return round(value)
    return NEVER if np.isposinf(value) else number(value)


def rows(
    study: Study, cells: Sequence[CellResult], published: Sequence[Published]
) -> list[dict[str, Any]]:
    """A row per cell and published metric; "final error %" for a cell without a published number."""
    found = []
    split = _splits(study, cells, published)
    for cell in cells:
        series = cell.series.get(study.measures[0].key)
        if series is None:
            continue
        fitting = [p for p in published if p.fits(study.name, cell.coords, cell.method)]
        known: list[Published | None] = [*fitting] or [None]
        statistics = _statistics(study, series, split[FINAL])
        for reference in known:
            metric = reference.metric if reference else FINAL
            row = {"coords": dict(cell.coords), "method": cell.label, "metric": metric}
            ours = _ours(metric, study, cell, split)
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


def _splits(study: Study, cells: Sequence[CellResult], published: Sequence[Published]) -> Splits:
    """Whether the seeds of some cell split, for each metric of the study."""
    metrics = {FINAL, *(p.metric for p in published if p.study == study.name)}
    return {
        metric: any(splits(x) for cell in cells if (x := _shares(metric, study, cell)) is not None)
        for metric in metrics
    }


def _rank(row: Mapping[str, Any]) -> float:
    """The final error; a row without one comes last."""
    return float("inf") if row["last100"] is None else float(row["last100"])


def _statistics(study: Study, series: Series, split: bool) -> dict[str, Any]:
    final = 100 * series.last
    low, high = interval([final])
    end = Ours.percent(series.end, split)
    return {
        "mean": number(final.mean()),
        "median": number(np.median(final)),
        "iqm": number(iqm(final)),
        "iqm_low": number(low),
        "iqm_high": number(high),
        "best": number(100 * series.lowest),
        "last100": number(end.value),
        "last100_low": number(end.interval.low),
        "last100_high": number(end.interval.high),
        "solved": solved(series.last, study.threshold),
        "failed": int((series.last > FAILED).sum()) if split else None,
        "n": series.seeds,
        "threshold": 100 * study.threshold,
        **_steps(series),
    }


def _steps(series: Series) -> dict[str, Any]:
    """Of the mean curve, and of the median seed."""
    if series.steps is None:
        return {"steps_to_threshold": None}
    median = MedianSteps.of(series.steps.seeds)
    return {
        "steps_to_threshold": _shown(series.steps.mean, whole=True),
        "steps_median": _shown(median.value, whole=True),
        "steps_low": _shown(median.interval.low, whole=True),
        "steps_high": _shown(median.interval.high, whole=True),
        "reached": median.reached,
    }


def _ours(metric: str, study: Study, cell: CellResult, split: Splits) -> Ours | None:
    """Our value of a published metric; None if it does not follow from the series."""
    steps = re.fullmatch(r"steps to ([\d.]+)%", metric)
    series = cell.series[study.measures[0].key]
    if steps and series.steps and float(steps[1]) / 100 == study.threshold:
        found = series.steps
        ends = repeated_steps(found.mean, found.interval, series.seeds, float(series.x[-1]))
        return Ours(found.mean, ends, whole=True)
    shares = _shares(metric, study, cell)
    return None if shares is None else Ours.percent(shares, split[metric])


def _shares(metric: str, study: Study, cell: CellResult) -> np.ndarray | None:
    """[seeds] an error, or a share of groups, from 0 to 1; None if it does not follow from the series."""
    series = cell.series.get(study.measures[0].key)
    if metric == FINAL or series is None:
        return None if series is None else series.last
    at = re.fullmatch(r"(error|all-fail groups) % at (\d+)", metric)
    if not at:
        return None
    error = at[1] == "error"
    values = (series if error else cell.series["success"]).at.get(int(at[2]))
    return values if values is None or error else 1 - values


def columns(found: Sequence[Mapping[str, Any]]) -> list[str]:
    """The coordinates of these rows, then COLUMNS."""
    axes = dict.fromkeys(key for row in found for key in row["coords"])
    return [*axes, *COLUMNS]

"""The rows of a study's table, beside the published numbers, as plain values."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tpo.results.loaded import Loaded
from tpo.results.panels import number
from tpo.results.statistics import interval, iqm, solved, steps_to, tail

if TYPE_CHECKING:
    from tpo.studies.declare import Study
    from tpo.studies.published import Published

COLUMNS = (
    "method", "metric", "published", "ours", "mean", "median", "iqm", "iqm_low", "iqm_high",
    "best", "last100", "solved", "n", "steps_to_threshold",
)  # fmt: skip
"""After the coordinates. ours: the number comparable with `published`. The statistics are of the final
error in percent: mean to iqm_high over seeds at the last episode, best the lowest point of the mean
curve, last100 the mean over the end, solved the seeds below the threshold at the last episode."""


def rows(
    study: Study, parts: Sequence[Loaded], published: Sequence[Published]
) -> list[dict[str, Any]]:
    """A row per part and published metric; one of "final error %" where nothing is published."""
    found = []
    for part in parts:
        x, y = part.curve(study.measures[0].key)
        if not y.size:
            continue
        known = [p for p in published if p.fits(study.name, part.coords, part.method)]
        statistics = _statistics(study, x, y)
        metrics: list[tuple[str, str | None]] = [(p.metric, p.value) for p in known]
        for metric, value in metrics or [("final error %", None)]:
            row: dict[str, Any] = {
                "coords": dict(part.coords),
                "method": part.label,
                "metric": metric,
            }
            row |= {"published": value, "ours": _ours(metric, x, y, part), **statistics}
            found.append({**row, "done": part.done})
    return sorted(found, key=_rank) if study.ranked else found


def _rank(row: Mapping[str, Any]) -> float:
    """The end's error; what has none comes last."""
    return float("inf") if row["last100"] is None else float(row["last100"])


def _statistics(study: Study, x: np.ndarray, y: np.ndarray) -> dict[str, Any]:
    final = 100 * y[:, -1]
    low, high = interval([final])
    return {
        "mean": number(final.mean()),
        "median": number(np.median(final)),
        "iqm": number(iqm(final)),
        "iqm_low": number(low),
        "iqm_high": number(high),
        "best": number(100 * y.mean(0).min()),
        "last100": number(100 * tail(y).mean()),
        "solved": solved(y[:, -1], study.threshold),
        "n": len(y),
        "steps_to_threshold": steps_to(x, y.mean(0), study.threshold),
    }


def _ours(metric: str, x: np.ndarray, y: np.ndarray, part: Loaded) -> float | int | None:
    """Our number for a published metric, None for one that the curve does not give."""
    mean = y.mean(0)
    if metric == "final error %":
        return number(100 * mean[-1])
    if steps := re.fullmatch(r"steps to ([\d.]+)%", metric):
        return steps_to(x, mean, float(steps[1]) / 100)
    if at := re.fullmatch(r"error % at (\d+)", metric):
        here = np.flatnonzero(x == int(at[1]))
        return number(100 * mean[here[0]]) if len(here) else None
    if metric == "all-fail groups % at 1":
        return number(100 * (1 - part.curves["success"][:, 0].mean()))
    return None


def columns(found: Sequence[Mapping[str, Any]]) -> list[str]:
    """The coordinates that occur, then COLUMNS."""
    axes = dict.fromkeys(key for row in found for key in row["coords"])
    return [*axes, *COLUMNS]

"""The second computation of a kept comparison's numbers: every statistic, from the seeds' values in its file.

A file keeps values to five digits. Its means, medians, interquartile means, intervals and standard errors are
those of the values as kept, so that the file can be checked to the last digit. The values of final accuracies
are the last points of their seeds' curves.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tpo.stats.intervals import interval, iqm, standard_error
from tpo.storage.numbers import plain

ROUNDED = 1.1e-4
"""Relative: more than one unit of the last of five digits, by which two roundings of a number may differ."""
ACCURACIES = {"final sampled accuracy %": "sampled", "final accuracy %": "greedy"}
"""Rows of the table whose values are the last points of a panel; so are those of pass@k."""


def recomputed(summary: Mapping[str, Any]) -> dict[str, Any]:
    """The summary with its statistics computed from its values; an error if two places disagree on a value."""
    found = dict(summary)
    if "table" not in summary:
        return found
    table, panels = summary["table"], summary.get("panels", [])
    curves = {
        (panel.get("coords", {}).get("measure"), one["method"]): np.array(one["seeds"], float)
        for panel in panels
        for one in panel["series"]
        if one.get("seeds")
    }
    rows = [row(_with_ends(one, curves)) for one in table["rows"]]
    found["table"] = {**table, "rows": rows}
    found["panels"] = [
        {**panel, "series": [_series(one) for one in panel["series"]]} for panel in panels
    ]
    return found


def _short(values: Any) -> list[float | None]:
    """JSON numbers; first rounded to 12 decimals, so that they do not depend on how a library sums."""
    return plain(np.round(np.atleast_1d(np.asarray(values, float)), 12))


def row(one: Mapping[str, Any]) -> dict[str, Any]:
    """A row of the table, with the statistics of its values; as it is without values."""
    values = np.array(one.get("values") or [], float)
    if not len(values):
        return dict(one)
    low, high = interval([values]) if len(values) > 1 else (None, None)
    made = {
        "mean": values.mean(),
        "median": np.median(values),
        "iqm": iqm(values),
        "iqm_low": low,
        "iqm_high": high,
    }
    rounded = {name: None if x is None else _short(x)[0] for name, x in made.items()}
    return {**one, **{k: v for k, v in rounded.items() if k in one}, "n": len(values)}


def _series(one: Mapping[str, Any]) -> dict[str, Any]:
    """A curve, with the statistics of its seeds at each point."""
    seeds = np.array(one.get("seeds") or [], float)
    if seeds.ndim != 2 or not seeds.size:
        return dict(one)
    made: dict[str, Any] = {
        "mean": _short(seeds.mean(0)),
        "median": _short(np.median(seeds, 0)),
        "se": _short(standard_error(seeds)),
    }
    if one.get("iqm_low"):
        ends = [interval([x]) if len(x) > 1 else (None, None) for x in seeds.T]
        made["iqm"] = _short(iqm(seeds.T))
        for i, name in enumerate(("iqm_low", "iqm_high")):
            made[name] = [None if end[i] is None else _short(end[i])[0] for end in ends]
    return {**one, **{name: x for name, x in made.items() if name in one}}


def _with_ends(
    one: Mapping[str, Any], curves: Mapping[tuple[str | None, str], np.ndarray]
) -> Mapping[str, Any]:
    """The row of a final accuracy with the ends of its seeds' curves as values; an error if they differ."""
    metric, values = one["metric"], one.get("values")
    name = "pass_at_k" if metric.startswith("pass@") else ACCURACIES.get(metric)
    curve = curves.get((name, one["method"]))
    if curve is None or not values:
        return one
    ends = plain(100 * curve[:, -1])
    if len(ends) != len(values) or not np.allclose(np.array(ends, float), values, rtol=ROUNDED):
        raise ValueError(
            f"{one['method']}: {metric} has the values {values}, and its curves end at {ends}"
        )
    return {**one, "values": ends}

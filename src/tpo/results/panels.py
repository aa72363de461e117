"""Curves of many seeds as panels of plain numbers, thinned for a page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tpo.results.loaded import Loaded
from tpo.results.statistics import standard_error, tail

if TYPE_CHECKING:
    from tpo.studies.declare import Measure, Study

POINTS = 120
"""Most points of a curve on a page."""


def curve_panels(study: Study, parts: Sequence[Loaded]) -> list[dict[str, Any]]:
    """A panel per point of the grid (less the axes drawn as series) and measure, then the sweep."""
    panels = []
    for coords, members in grouped(study, parts):
        for measure in study.measures:
            series = [s for part in members if (s := _series(study, part, measure))]
            if not series:
                continue
            title = ", ".join(filter(None, [named(coords), _extra_title(study, measure)]))
            y = {"label": measure.label, "log": measure.log}
            panels.append({"title": title, "coords": coords, "y": y, "series": series})
    if study.sweep:
        panels += sweep_panels(study, parts)
    return panels


def grouped(study: Study, parts: Sequence[Loaded]) -> list[tuple[dict[str, Any], list[Loaded]]]:
    """Parts by their coordinates, without the axes that are drawn as series."""
    found: dict[str, tuple[dict[str, Any], list[Loaded]]] = {}
    for part in parts:
        coords = {k: v for k, v in part.coords.items() if k not in study.series}
        found.setdefault(repr(coords), (coords, []))[1].append(part)
    return list(found.values())


def named(coords: Mapping[str, Any]) -> str:
    """Coordinates in words."""
    special = {"prompt": "prompt-matched", "interaction": "interaction-matched"}
    words = []
    for key, value in coords.items():
        plain = isinstance(value, str)
        words.append(special.get(value, value.replace("_", " ")) if plain else f"{key} = {value}")
    return ", ".join(words)


def _extra_title(study: Study, measure: Measure) -> str:
    return measure.label if len(study.measures) > 1 else ""


def label_of(study: Study, part: Loaded) -> str:
    """The method, with the axes that are drawn as series."""
    own = {k: v for k, v in part.coords.items() if k in study.series}
    return ", ".join(filter(None, [part.label, named(own)]))


def _series(study: Study, part: Loaded, measure: Measure) -> dict[str, Any] | None:
    x, y = part.curve(measure.key)
    if not y.size:
        return None
    x, y = thinned(x, y)
    return {
        "method": part.method,
        "label": label_of(study, part),
        "x": [int(v) for v in x],
        "mean": plain(y.mean(0)),
        "se": plain(standard_error(y)),
        "median": plain(np.median(y, axis=0)),
        "seeds": [plain(row) for row in y],
        "n": len(y),
        "done": part.done,
    }


def thinned(x: np.ndarray, y: np.ndarray, points: int = POINTS) -> tuple[np.ndarray, np.ndarray]:
    """At most `points` points, each the mean over a window and placed at the window's last x."""
    if len(x) <= points:
        return x, np.asarray(y, float)
    edges = np.linspace(0, len(x), points + 1).round().astype(int)
    totals = np.add.reduceat(np.asarray(y, float), edges[:-1], axis=1)
    return x[edges[1:] - 1], totals / np.diff(edges)


def sweep_panels(study: Study, parts: Sequence[Loaded]) -> list[dict[str, Any]]:
    """The end of the curves against one axis: a bar per value and method, a panel per rest."""
    measure = study.measures[0]
    rests: dict[str, tuple[dict[str, Any], dict[str, list[Loaded]]]] = {}
    for part in parts:
        if part.curve(measure.key)[1].size:
            rest = {k: v for k, v in part.coords.items() if k != study.sweep}
            by_label = rests.setdefault(repr(rest), (rest, {}))[1]
            by_label.setdefault(part.label, []).append(part)
    panels = []
    for coords, by_label in rests.values():
        title = ", ".join(
            filter(None, [named(coords), f"{measure.label} at the end, by {study.sweep}"])
        )
        series = [_bars(study, label, members) for label, members in by_label.items()]
        panels.append({"title": title, "kind": "bars", "coords": coords, "series": series,
                       "x": {"label": study.sweep},
                       "y": {"label": measure.label, "log": measure.log}})  # fmt: skip
    return panels


def _bars(study: Study, label: str, members: Sequence[Loaded]) -> dict[str, Any]:
    ends = [tail(part.curve(study.measures[0].key)[1]) for part in members]
    return {
        "label": label,
        "x": [str(part.coords[study.sweep]) for part in members],
        "y": plain([float(end.mean()) for end in ends]),
        "se": plain([float(standard_error(end)) for end in ends]),
    }


def plain(values: Any, digits: int = 5) -> list[float | None]:
    """JSON numbers of so many significant digits; None where there is no number."""
    return [number(v, digits) for v in np.asarray(values, float)]


def number(value: Any, digits: int = 5) -> float | None:
    """One JSON number, or None."""
    value = float(value)
    return float(f"{value:.{digits}g}") if np.isfinite(value) else None

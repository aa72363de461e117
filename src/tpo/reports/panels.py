"""Panels for a page: the series of a study as plain numbers, and which panels and lines to see first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tpo.declarations.study import Measure, Study
from tpo.reports.load import CellResult
from tpo.reports.styles import family
from tpo.stats.intervals import standard_error
from tpo.storage.numbers import plain

MANY = 8
"""More lines than this are not all drawn in colour at first."""
FIRST = ("tpo", "grpo", "ppo", "dg")
"""The methods whose best line is highlighted among many."""


def curve_panels(study: Study, cells: Sequence[CellResult]) -> list[dict[str, Any]]:
    """A panel per measure and point of the grid, then the sweep; some axes are drawn as series instead."""
    panels = []
    for coords, members in grouped(study, cells):
        for measure in study.measures:
            series = [s for cell in members if (s := _series(study, cell, measure))]
            if not series:
                continue
            title = ", ".join(filter(None, [named(coords), _extra_title(study, measure)]))
            y = {"label": measure.label, "log": measure.log}
            panels.append({"title": title, "coords": coords, "y": y, "series": series})
    if study.sweep:
        panels += sweep_panels(study, cells)
    return panels


def grouped(
    study: Study, cells: Sequence[CellResult]
) -> list[tuple[dict[str, Any], list[CellResult]]]:
    """Parts by their coordinates, without the axes that are drawn as series."""
    found: dict[str, tuple[dict[str, Any], list[CellResult]]] = {}
    for cell in cells:
        coords = {k: v for k, v in cell.coords.items() if k not in study.series}
        found.setdefault(repr(coords), (coords, []))[1].append(cell)
    return list(found.values())


def named(coords: Mapping[str, Any]) -> str:
    """Coordinates as text: `H = 7, prompt-matched`."""
    special = {"prompt": "prompt-matched", "interaction": "interaction-matched"}
    words = []
    for key, value in coords.items():
        if isinstance(value, str):
            words.append(special.get(value, value.replace("_", " ")))
        else:
            words.append(f"{key} = {value}")
    return ", ".join(words)


def _extra_title(study: Study, measure: Measure) -> str:
    return measure.label if len(study.measures) > 1 else ""


def label_of(study: Study, cell: CellResult) -> str:
    """The method, with the axes that are drawn as series."""
    own = {k: v for k, v in cell.coords.items() if k in study.series}
    return ", ".join(filter(None, [cell.label, named(own)]))


def _series(study: Study, cell: CellResult, measure: Measure) -> dict[str, Any] | None:
    series = cell.series.get(measure.key)
    if series is None:
        return None
    return {
        "method": cell.method,
        "label": label_of(study, cell),
        "x": [int(v) for v in series.x],
        "mean": plain(series.mean),
        "se": plain(series.se),
        "median": plain(series.median),
        "end": plain(series.end),
        "seeds": [] if series.curves is None else [plain(row) for row in series.curves],
        "n": series.seeds,
        "done": cell.done,
    }


def sweep_panels(study: Study, cells: Sequence[CellResult]) -> list[dict[str, Any]]:
    """Final values against the sweep axis: bars per value and method, a panel per point of the other axes."""
    measure = study.measures[0]
    rests: dict[str, tuple[dict[str, Any], dict[str, list[CellResult]]]] = {}
    for cell in cells:
        if measure.key in cell.series:
            rest = {k: v for k, v in cell.coords.items() if k != study.sweep}
            by_label = rests.setdefault(repr(rest), (rest, {}))[1]
            by_label.setdefault(cell.label, []).append(cell)
    panels = []
    for coords, by_label in rests.values():
        title = ", ".join(filter(None, [named(coords), f"final {measure.label} by {study.sweep}"]))
        series = [_bars(study, label, members) for label, members in by_label.items()]
        panels.append({"title": title, "kind": "bars", "coords": coords, "series": series,
                       "x": {"label": study.sweep},
                       "y": {"label": measure.label, "log": measure.log}})  # fmt: skip
    return panels


def _bars(study: Study, label: str, members: Sequence[CellResult]) -> dict[str, Any]:
    ends = [cell.series[study.measures[0].key].end for cell in members]
    return {
        "label": label,
        "x": [str(cell.coords[study.sweep]) for cell in members],
        "y": plain([float(end.mean()) for end in ends]),
        "se": plain([float(standard_error(end)) for end in ends]),
    }


def main_panels(panels: Sequence[Mapping[str, Any]]) -> list[bool]:
    """Which panels are shown at once: the sweep's bars, else the first measure and all that are no curves."""
    sweeps = [_is_sweep(panel) for panel in panels]
    if any(sweeps):
        return sweeps
    first = next((_measure(panel) for panel in panels if not panel.get("kind")), None)
    return [bool(panel.get("kind")) or _measure(panel) == first for panel in panels]


def _is_sweep(panel: Mapping[str, Any]) -> bool:
    return panel.get("kind") == "bars" and bool((panel.get("x") or {}).get("label"))


def _measure(panel: Mapping[str, Any]) -> str:
    return str((panel.get("y") or {}).get("label"))


def highlighted(study: Mapping[str, Any]) -> list[str]:
    """The keys of the lines to draw in colour among many: the best two, and the best of `FIRST`; else none."""
    curves = [panel for panel in study["panels"] if not panel.get("kind") and panel.get("series")]
    if not curves or len({s["key"] for panel in curves for s in panel["series"]}) <= MANY:
        return []
    higher = "accuracy" in _measure(curves[0])
    ranked = sorted(curves[0]["series"], key=lambda s: _end(s) * (-1 if higher else 1))
    best = {name: next((s["key"] for s in ranked if family(str(s.get("method"))) == name), None)
            for name in FIRST}  # fmt: skip
    return list(
        dict.fromkeys(key for key in [*(s["key"] for s in ranked[:2]), *best.values()] if key)
    )


def _end(series: Mapping[str, Any]) -> float:
    """The last known value of the mean, which orders lines; a line without one comes last."""
    known = [v for v in series.get("mean") or () if v is not None]
    return float(known[-1]) if known else float("inf")

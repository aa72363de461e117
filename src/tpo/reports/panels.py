"""Panels for a page: the series of a study as plain numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tpo.declarations.study import Measure, Study
from tpo.reports.load import CellResult
from tpo.stats.intervals import standard_error
from tpo.storage.numbers import plain


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

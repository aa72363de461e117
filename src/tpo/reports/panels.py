"""Tracks as panels of plain numbers for a page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tpo.lab.studies.study import Measure, Study
from tpo.reports.load import Loaded
from tpo.stats.intervals import standard_error
from tpo.storage.numbers import plain


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
        if isinstance(value, str):
            words.append(special.get(value, value.replace("_", " ")))
        else:
            words.append(f"{key} = {value}")
    return ", ".join(words)


def _extra_title(study: Study, measure: Measure) -> str:
    return measure.label if len(study.measures) > 1 else ""


def label_of(study: Study, part: Loaded) -> str:
    """The method, with the axes that are drawn as series."""
    own = {k: v for k, v in part.coords.items() if k in study.series}
    return ", ".join(filter(None, [part.label, named(own)]))


def _series(study: Study, part: Loaded, measure: Measure) -> dict[str, Any] | None:
    track = part.tracks.get(measure.key)
    if track is None:
        return None
    return {
        "method": part.method,
        "label": label_of(study, part),
        "x": [int(v) for v in track.x],
        "mean": plain(track.mean),
        "se": plain(track.se),
        "median": plain(track.median),
        "seeds": [] if track.curves is None else [plain(row) for row in track.curves],
        "n": track.seeds,
        "done": part.done,
    }


def sweep_panels(study: Study, parts: Sequence[Loaded]) -> list[dict[str, Any]]:
    """The end of the curves against one axis: a bar per value and method, a panel per rest."""
    measure = study.measures[0]
    rests: dict[str, tuple[dict[str, Any], dict[str, list[Loaded]]]] = {}
    for part in parts:
        if measure.key in part.tracks:
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
    ends = [part.tracks[study.measures[0].key].end for part in members]
    return {
        "label": label,
        "x": [str(part.coords[study.sweep]) for part in members],
        "y": plain([float(end.mean()) for end in ends]),
        "se": plain([float(standard_error(end)) for end in ends]),
    }

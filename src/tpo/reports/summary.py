"""Everything that a report shows of a study, as plain JSON values; the study may be unfinished."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tpo.declarations.study import Study
from tpo.reports import exact_views
from tpo.reports.gather import combined, command, gather
from tpo.reports.load import CellResult, StudyResult
from tpo.reports.panels import curve_panels, grouped
from tpo.reports.tables import columns, rows
from tpo.reports.wording import value_text
from tpo.stats.curves import performance_profile
from tpo.stats.failures import Ends, typical_and_failed
from tpo.stats.verdicts import verdict
from tpo.storage.numbers import plain

STEPS = 240
"""A performance profile has at most this many steps."""


def summarise(*folders: str | Path) -> list[dict[str, Any]]:
    """One dict per study found in stores and folders of evidence, in the order of `tpo studies`.

    Keys: name, title, source, question, about, command, scale, settings; threshold; asks, the metric of
    the first claim; x and y, the axes (a panel may have its own y); panels; table; failures; verdicts;
    profiles; provenance, cost and progress. A panel without "kind" holds curves. A panel of kind "bars" has
    series of x, y and se; one of kind "simplex" has series of arrows between points of the triangle. Errors
    are fractions in curves and percent in tables.
    """
    return [summary(result) for result in gather(folders)]


def summary(result: StudyResult) -> dict[str, Any]:
    """One study as `summarise` gives it."""
    study, manifest, cells = result.study, result.manifest, result.cells
    measure = study.measures[0]
    origins = combined([cell.origin for cell in cells if cell.done] or [manifest.provenance])
    draw = exact_views.shown if study.view in exact_views.VIEWS else _curves
    shown = draw(study, cells)
    for panel in shown["panels"]:
        for series in panel["series"]:
            series["planned"] = manifest.seeds
    return {
        "name": study.name,
        "title": study.title,
        "source": study.source,
        "question": study.question,
        "about": study.about,
        "command": command(result),
        "scale": manifest.scale,
        "settings": dict(manifest.settings),
        "threshold": study.threshold,
        "asks": study.claims[0].metric if study.claims else "end",
        "x": {"label": study.x_label},
        "y": {"label": measure.label, "log": measure.log},
        **shown,
        "provenance": origins,
        "cost": {
            "seconds": round(sum(cell.seconds for cell in cells), 1),
            "device": value_text(origins.get("device", "")),
        },
        "progress": {"cells_done": sum(cell.done for cell in cells), "cells": len(cells)},
    }


def _curves(study: Study, cells: Sequence[CellResult]) -> dict[str, Any]:
    table = rows(study, cells, study.published)
    evaluated = [cell.evaluated(study.measures[0].key) for cell in cells]
    return {
        "panels": curve_panels(study, cells),
        "table": {"columns": columns(table), "rows": table},
        "complete_failures": failures(study, cells),
        "profiles": profiles(study, cells),
        "verdicts": [verdict(claim, evaluated) for claim in study.claims],
    }


def failures(study: Study, cells: Sequence[CellResult]) -> list[dict[str, Any]]:
    """Typical seeds and complete failures by method, where seeds fail completely or not at all."""
    ends = [
        Ends(cell.label, str(cell.coords), cell.key or cell.place, series.last)
        for cell in cells
        if cell.done and (series := cell.series.get(study.measures[0].key))
    ]
    own = [cell.label for cell in cells if cell.method == "tpo"] or [end.method for end in ends]
    return typical_and_failed(ends, own[0], study.threshold) if ends else []


def profiles(study: Study, cells: Sequence[CellResult]) -> list[dict[str, Any]]:
    """Per method, the share of runs whose final error is at most tau; settings weigh equally."""
    strata: dict[str, list[np.ndarray]] = {}
    for _, members in grouped(study, cells):
        for cell in members:
            if series := cell.series.get(study.measures[0].key):
                strata.setdefault(cell.label, []).append(series.end)
    return [
        {"label": label, "tau": plain(taus), "share": plain(performance_profile(x, taus))}
        for label, x in strata.items()
        for taus in [_steps(np.concatenate(x))]
    ]


def _steps(ends: np.ndarray) -> np.ndarray:
    """The final errors at which a profile rises; a selection of them where there are many."""
    values = np.unique(ends[~np.isnan(ends)])
    kept = np.linspace(0, len(values) - 1, min(len(values), STEPS)).round().astype(int)
    return values[kept]

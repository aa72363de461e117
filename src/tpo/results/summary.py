"""Everything a report shows of a store, as plain JSON values; the store may be half finished."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tpo.results import exact
from tpo.results.loaded import Loaded, load
from tpo.results.panels import curve_panels, grouped, plain
from tpo.results.statistics import performance_profile, tail
from tpo.results.store import Store
from tpo.results.tables import columns, rows
from tpo.results.verdicts import verdict

if TYPE_CHECKING:
    from tpo.studies.declare import Study
    from tpo.studies.manifest import Manifest

TAUS = np.array([0.0, 0.001, 0.003, 0.01, 0.02, 0.05, *np.arange(0.1, 1.01, 0.05)])


def summarise(store_dir: str | Path) -> list[dict[str, Any]]:
    """One dict per study found in the store, in the order of `tpo studies`.

    Keys: name, title, source, about, command, scale, settings; x and y, the axes (a panel may have its
    own y); panels; table; verdicts; profiles, where the table is about errors; provenance, cost and
    progress. A panel without "kind" holds curves; "bars" has series of x, y, se; "simplex" has series
    of arrows from and to points of the triangle. Errors of curves are fractions, of tables percent.
    """
    from tpo import studies
    from tpo.studies import manifest

    folder = Path(store_dir)
    found = manifest.read_all(folder)
    store = Store(folder)
    known = {m.name: m for m in found if m.name in studies.names()}
    return [_summary(studies.study(n), known[n], store) for n in studies.names() if n in known]


def _summary(study: Study, manifest: Manifest, store: Store) -> dict[str, Any]:
    parts = [load(store, part) for part in manifest.parts]
    measure = study.measures[0]
    shown = exact.VIEWS.get(study.view, _curves)(study, parts)
    for panel in shown["panels"]:
        for series in panel["series"]:
            series["planned"] = manifest.seeds
    return {
        "name": study.name,
        "title": study.title,
        "source": study.source,
        "about": study.about,
        "command": manifest.command,
        "scale": manifest.scale,
        "settings": dict(manifest.settings),
        "x": {"label": study.x_label},
        "y": {"label": measure.label, "log": measure.log},
        **shown,
        "provenance": dict(manifest.provenance),
        "cost": {
            "seconds": round(sum(part.seconds for part in parts), 1),
            "device": manifest.provenance.get("device", ""),
        },
        "progress": {"cells_done": sum(part.done for part in parts), "cells": len(parts)},
    }


def _curves(study: Study, parts: Sequence[Loaded]) -> dict[str, Any]:
    from tpo.studies.published import published

    table = rows(study, parts, published())
    outcomes = [part.outcome(study.measures[0].key, study.threshold) for part in parts]
    return {
        "panels": curve_panels(study, parts),
        "table": {"columns": columns(table), "rows": table},
        "profiles": profiles(study, parts),
        "verdicts": [verdict(claim, outcomes) for claim in study.claims],
    }


def profiles(study: Study, parts: Sequence[Loaded]) -> list[dict[str, Any]]:
    """Per method, the share of runs that end with an error of at most tau; settings weigh equally."""
    strata: dict[str, list[np.ndarray]] = {}
    for _, members in grouped(study, parts):
        for part in members:
            y = part.curve(study.measures[0].key)[1]
            if y.size:
                strata.setdefault(part.label, []).append(tail(y))
    return [
        {"label": label, "tau": plain(TAUS), "share": plain(performance_profile(x, TAUS))}
        for label, x in strata.items()
    ]

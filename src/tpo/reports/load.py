"""CellResult, one cell of a study as far as it has run, and StudyResult, all cells of a study."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tpo.declarations.manifest import Manifest, PlannedCell
from tpo.declarations.study import Study
from tpo.reports.series import Series, measured
from tpo.stats.verdicts import MethodResult
from tpo.storage.store import Curves, Store


@dataclass(frozen=True)
class CellResult:
    """The results of a cell: of its finished run, else of its last checkpoint, else none.

    seeds: the number that was run. series: one per measure of the study. arrays: the results of a study
    without curves. origin: code, versions, device and date of the run.
    """

    key: str
    coords: Mapping[str, Any]
    method: str
    label: str
    done: bool
    seeds: int
    series: Mapping[str, Series]
    seconds: float = 0.0
    arrays: Curves = field(default_factory=dict)
    origin: Mapping[str, Any] = field(default_factory=dict)
    curves: tuple[str, ...] = field(default=(), compare=False)
    """names of the curves in the store that hold a number, also those that the study does not measure"""

    @property
    def place(self) -> str:
        """The point of the grid and the method, as text: what identifies a cell within its study."""
        return json.dumps([dict(self.coords), self.method], sort_keys=True)

    def evaluated(self, measure: str) -> MethodResult:
        """For verdicts: "end" and "steps" are those of `measure`; another metric is the end of its curve."""

        def values(metric: str) -> np.ndarray:
            name = metric if metric not in ("end", "steps") else measure
            valid = tuple(self.series) or self.curves
            if not valid:
                raise ValueError(
                    f"{self.label} has no numbers: the files in {self.key} hold only NaN. Remove that folder "
                    "of the store and run the study again, or train with a smaller learning rate"
                )
            if name not in self.series:
                raise ValueError(
                    f"{self.label} has no curve {name!r}, expected one of {', '.join(valid)}: correct "
                    "the measures or the claims of the study"
                )
            series = self.series[name]
            if metric == "steps" and series.steps is not None:
                return series.steps.seeds
            return series.end

        horizon = self.series[measure].x[-1] if measure in self.series else np.inf
        return MethodResult(
            self.coords, self.method, self.label, self.done, values, float(horizon + 1)
        )


@dataclass(frozen=True)
class StudyResult:
    """A study as it was requested, and the results of its cells so far."""

    study: Study
    manifest: Manifest
    cells: tuple[CellResult, ...]


def load(
    store: Store, cell: PlannedCell, study: Study, default_origin: Mapping[str, Any]
) -> CellResult:
    """The cell from the store; `default_origin` is the provenance of runs that did not write their own."""
    curves = store.curves(cell.key)
    done = curves is not None
    if curves is None:
        curves = store.so_far(cell.key)
    cost = store.cost(cell.key)
    drawn = study.view == "curves"
    description = store.description(cell.key) or ({"cell": {}} if drawn else {})
    return CellResult(
        cell.key,
        cell.coords,
        cell.method,
        cell.label,
        done,
        seeds_of(description, curves) if curves else 0,
        series_of(study, curves) if drawn else {},
        cost["seconds"],
        {} if drawn else curves,
        cost["provenance"] or default_origin,
        tuple(name for name in curves if drawn and measured(curves, name)),
    )


def seeds_of(description: Mapping[str, Any], curves: Curves) -> int:
    """The number of seeds: rows of the curves; for a computation what it declares, 1 if it samples nothing."""
    if "cell" in description:
        return len(next(iter(curves.values())))
    return int(description.get("seeds", 1))


def series_of(study: Study, curves: Curves) -> dict[str, Series]:
    """A series for each measure of the study that was measured; only the first has steps to the threshold."""
    metrics = [number.metric for number in study.published]
    at = {int(named[1]) for metric in metrics if (named := re.search(r" at (\d+)$", metric))}
    found: dict[str, Series] = {}
    for i, measure in enumerate(study.measures):
        if curve := measured(curves, measure.key):
            found[measure.key] = Series.of(*curve, None if i else study.threshold, sorted(at))
    return found

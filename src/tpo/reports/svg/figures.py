"""The figure of a study: its curves, their final values against an axis, a ranking of methods, or bars."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tpo.declarations.published import Published
from tpo.declarations.study import Measure
from tpo.reports import exact_views
from tpo.reports.labels import readable
from tpo.reports.load import CellResult, StudyResult
from tpo.reports.panels import grouped, label_of, named
from tpo.reports.styles import css_classes, slug
from tpo.reports.svg.axes import Axis
from tpo.reports.svg.draw import Figure, Mark, Panel
from tpo.stats.intervals import standard_error

LONG = 30
"""Characters of a panel's title; if one is longer, all titles say "prompt" instead of "prompt-matched"."""
SHOWN = "mean over seeds, band ± one standard error"


def figure(result: StudyResult) -> Figure:
    """The figure of a study, with the cells that have results."""
    study = result.study
    known = tuple(cell for cell in result.cells if cell.series or cell.arrays)
    result = replace(result, cells=known)
    if study.view in exact_views.VIEWS:
        return _bars(result)
    if study.ranked:
        return _ranking(result)
    if study.sweep:
        return _sweep(result)
    return _curves(result)


def _css_classes(pairs: Iterable[tuple[str, str]]) -> dict[str, str]:
    """The CSS classes of each label, in the given order."""
    listed = list(dict.fromkeys(pairs))
    found = css_classes(listed)
    return {label: found[label] for _, label in listed}


def _legend(classes: Mapping[str, str]) -> list[tuple[str, str]]:
    """Every label in words, with its CSS classes."""
    return [(readable(label), style) for label, style in classes.items()]


def _published(result: StudyResult, cell: CellResult) -> list[Published]:
    """The published numbers of a cell; none for a smaller scale than the paper's."""
    if result.manifest.scale != "full":
        return []
    return [
        p for p in result.study.published if p.fits(result.study.name, cell.coords, cell.method)
    ]


def _axis(measure: Measure, cells: Sequence[CellResult]) -> Axis:
    """The y axis that all panels of a measure share."""
    means = [cell.series[measure.key].mean for cell in cells if measure.key in cell.series]
    values = np.concatenate(means) if means else np.ones(1)
    known = values[np.isfinite(values) & ((values > 0) | (not measure.log))]
    percent = "error" in measure.label
    low, high = (float(known.min()), float(known.max())) if known.size else (0.1, 1.0)
    return Axis(measure.label, measure.log, percent, low=low if measure.log else None, high=high)


def _curves(result: StudyResult) -> Figure:
    study = result.study
    colours = _css_classes((cell.method, label_of(study, cell)) for cell in result.cells)
    axes = {measure.key: _axis(measure, result.cells) for measure in study.measures}
    first = study.measures[0].key
    known = [
        y for cell in result.cells for m in _hollow(result, cell, colours) for y in m.ys if y > 0
    ]
    axes[first] = replace(axes[first], low=min([axes[first].low or 1.0, *known]))
    panels = []
    for coords, members in _rows(grouped(study, result.cells)):
        for i, measure in enumerate(study.measures):
            drawn = [cell for cell in members if measure.key in cell.series]
            if not drawn:
                continue
            marks = [_line(cell, measure, colours[label_of(study, cell)]) for cell in drawn]
            if i == 0:
                marks += [m for cell in drawn for m in _hollow(result, cell, colours)]
            rules = [study.threshold] if i == 0 and _counts_steps(result, drawn) else []
            title = named(coords) or ("" if len(study.measures) > 1 else study.title)
            x = Axis(study.x_label)
            panels.append(Panel(title, x, axes[measure.key], marks, rules))
    if any(len(panel.title) > LONG for panel in panels):
        panels = [replace(panel, title=panel.title.replace("-matched", "")) for panel in panels]
    columns = _columns(len(panels))
    what = study.measures[0].label if len(study.measures) == 1 else "curves"
    note = f"{what.capitalize()}: {SHOWN}"
    return Figure(study.title, panels, _legend(colours), columns, note=note)


def _rows(
    found: list[tuple[dict[str, Any], list[CellResult]]],
) -> list[tuple[dict[str, Any], list[CellResult]]]:
    """Sorted by "matching", so that each of its values has rows of its own."""
    order = list(dict.fromkeys(coords.get("matching") for coords, _ in found))
    return sorted(found, key=lambda one: order.index(one[0].get("matching")))


def _columns(panels: int) -> int:
    return panels if panels < 4 else 4 if panels % 4 == 0 else 3


def _line(cell: CellResult, measure: Measure, style: str) -> Mark:
    series = cell.series[measure.key]
    few = slice(1, None, 2) if len(series.x) > 60 and len(series.x) % 2 == 0 else slice(None)
    return Mark(
        "line", style, series.x[few].tolist(), series.mean[few].tolist(), series.se[few].tolist()
    )


def _counts_steps(result: StudyResult, cells: Sequence[CellResult]) -> bool:
    return any(p.metric.startswith("steps") for cell in cells for p in _published(result, cell))


def _hollow(result: StudyResult, cell: CellResult, colours: dict[str, str]) -> list[Mark]:
    """The published numbers of a cell, at their places on its curve."""
    if result.study.measures[0].key not in cell.series:
        return []
    style = colours[label_of(result.study, cell)].split()[0]
    last = float(cell.series[result.study.measures[0].key].x[-1])
    found = []
    for number in _published(result, cell):
        value = _middle(number)
        at = re.search(r"% at (\d+)", number.metric)
        if value is None or number.metric.startswith("all-fail"):
            continue
        place = (
            (value, result.study.threshold)
            if number.metric.startswith("steps")
            else (last, value / 100)
        )
        if at:
            place = float(at[1]), value / 100
        found.append(Mark("hollow", style, [place[0]], [place[1]]))
    return found


def _middle(number: Published) -> float | None:
    """The number that was printed; None if it is a bound or "never"."""
    low, high = number.range
    return (low + high) / 2 if math.isfinite(high - low) else None


def _sweep(result: StudyResult) -> Figure:
    """The last point of each curve against the sweep axis, beside the published numbers."""
    study, measure = result.study, result.study.measures[0]
    values = [
        v
        for v in study.grid[study.sweep]
        if any(cell.coords[study.sweep] == v for cell in result.cells)
    ]
    colours = _css_classes((cell.method, cell.label) for cell in result.cells)
    marks: list[Mark] = []
    for label, style in colours.items():
        members = [
            cell for cell in result.cells if cell.label == label and measure.key in cell.series
        ]
        xs = [float(values.index(cell.coords[study.sweep])) for cell in members]
        ends = [cell.series[measure.key].last for cell in members]
        errors = [float(standard_error(end)) for end in ends]
        marks.append(Mark("dots", style, xs, [float(end.mean()) for end in ends], errors))
        known = [
            (x, value / 100)
            for x, cell in zip(xs, members, strict=True)
            for number in _published(result, cell)
            if number.metric == "final error %" and (value := _middle(number)) is not None
        ]
        marks.append(Mark("hollow", style.split()[0], [x for x, _ in known], [y for _, y in known]))
    y = Axis(measure.label, measure.log, percent=True)
    panel = Panel("", Axis(study.sweep, names=[str(v) for v in values]), y, marks)
    note = "Mean over seeds at the last point, ± one standard error"
    return Figure(study.title, [panel], _legend(colours), note=note)


def _ranking(result: StudyResult) -> Figure:
    """The final error of every objective's seeds, with the lowest mean on top."""
    measure = result.study.measures[0]
    cells = [cell for cell in result.cells if measure.key in cell.series]
    cells.sort(key=lambda cell: float(cell.series[measure.key].end.mean()), reverse=True)
    marks = []
    for i, cell in enumerate(cells):
        end = cell.series[measure.key].end
        style = "m0" if cell.method == "tpo" else "m6"
        marks.append(Mark("strip", style, end.tolist(), [float(i)] * len(end)))
        marks.append(Mark("hollow", style, [float(end.mean())], [float(i)]))
    x = Axis("error over the last 100 episodes", log=True, percent=True)
    panel = Panel("", x, Axis("", names=[readable(cell.label) for cell in cells]), marks)
    note = "A point per seed, a diamond for their mean; the paper has no such comparison"
    return Figure(result.study.title, [panel], [], height=70 + 17 * len(cells), note=note)


def _bars(result: StudyResult) -> Figure:
    """The bars of a study that has no curves."""
    shown = exact_views.shown(result.study, result.cells)
    found: list[dict[str, Any]] = [p for p in shown["panels"] if p.get("kind") == "bars"]
    labels = [s["label"] for panel in found for s in panel["series"]]
    colours = _css_classes((slug(label), label) for label in labels)
    panels = []
    for panel in found:
        names = panel["series"][0]["x"]
        marks = [
            Mark(
                "bars",
                colours[s["label"]],
                list(range(len(names))),
                _floats(s["y"]),
                _floats(s["se"]),
            )
            for s in panel["series"]
        ]
        panels.append(Panel(panel["title"], Axis("", names=names), Axis(""), marks))
    return Figure(result.study.title, panels, _legend(colours), columns=2)


def _floats(values: Sequence[float | None]) -> list[float]:
    return [math.nan if v is None else float(v) for v in values]

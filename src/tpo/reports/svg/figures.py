"""Which figure a study has: its curves, the end of them against an axis, a league, or bars."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tpo.lab.studies.published import Published, published_numbers
from tpo.lab.studies.study import Measure
from tpo.reports import exact_views
from tpo.reports.load import Loaded, Record
from tpo.reports.panels import grouped, label_of, named
from tpo.reports.styles import looks, slug
from tpo.reports.svg.axes import Axis
from tpo.reports.svg.draw import Figure, Mark, Panel
from tpo.stats.intervals import standard_error

LONG = 30
"""Characters of a panel's title; where one has more, all say "prompt" for "prompt-matched"."""
SHOWN = "mean over seeds, band ± one standard error"


def figure(record: Record) -> Figure:
    """The figure of a study, of the parts that there are."""
    study = record.study
    known = tuple(part for part in record.parts if part.tracks or part.arrays)
    record = replace(record, parts=known)
    if study.view in exact_views.VIEWS:
        return _bars(record)
    if study.ranked:
        return _league(record)
    if study.sweep:
        return _sweep(record)
    return _curves(record)


def _looks(pairs: Iterable[tuple[str, str]]) -> dict[str, str]:
    """The look of each label, in the order in which they come."""
    listed = list(dict.fromkeys(pairs))
    found = looks(listed)
    return {label: found[label] for _, label in listed}


def _published(record: Record, part: Loaded) -> list[Published]:
    """What was published of a part; of a smaller run nothing was."""

    if record.manifest.scale != "full":
        return []
    return [p for p in published_numbers() if p.fits(record.study.name, part.coords, part.method)]


def _axis(measure: Measure, parts: Sequence[Loaded]) -> Axis:
    """The same for all panels of a measure."""
    means = [part.tracks[measure.key].mean for part in parts if measure.key in part.tracks]
    values = np.concatenate(means) if means else np.ones(1)
    known = values[np.isfinite(values) & ((values > 0) | (not measure.log))]
    percent = "error" in measure.label
    low, high = (float(known.min()), float(known.max())) if known.size else (0.1, 1.0)
    return Axis(measure.label, measure.log, percent, low=low if measure.log else None, high=high)


def _curves(record: Record) -> Figure:
    study = record.study
    colours = _looks((part.method, label_of(study, part)) for part in record.parts)
    axes = {measure.key: _axis(measure, record.parts) for measure in study.measures}
    first = study.measures[0].key
    known = [
        y for part in record.parts for m in _hollow(record, part, colours) for y in m.ys if y > 0
    ]
    axes[first] = replace(axes[first], low=min([axes[first].low or 1.0, *known]))
    panels = []
    for coords, members in _rows(grouped(study, record.parts)):
        for i, measure in enumerate(study.measures):
            drawn = [part for part in members if measure.key in part.tracks]
            if not drawn:
                continue
            marks = [_line(part, measure, colours[label_of(study, part)]) for part in drawn]
            if i == 0:
                marks += [m for part in drawn for m in _hollow(record, part, colours)]
            rules = [study.threshold] if i == 0 and _counts_steps(record, drawn) else []
            title = named(coords) or ("" if len(study.measures) > 1 else study.title)
            x = Axis(study.x_label)
            panels.append(Panel(title, x, axes[measure.key], marks, rules))
    if any(len(panel.title) > LONG for panel in panels):
        panels = [replace(panel, title=panel.title.replace("-matched", "")) for panel in panels]
    columns = _columns(len(panels))
    what = study.measures[0].label if len(study.measures) == 1 else "curves"
    note = f"{what.capitalize()}: {SHOWN}"
    return Figure(study.title, panels, list(colours.items()), columns, note=note)


def _rows(
    found: list[tuple[dict[str, Any], list[Loaded]]],
) -> list[tuple[dict[str, Any], list[Loaded]]]:
    """One matching after the other, so that each has its rows."""
    order = list(dict.fromkeys(coords.get("matching") for coords, _ in found))
    return sorted(found, key=lambda one: order.index(one[0].get("matching")))


def _columns(panels: int) -> int:
    return panels if panels < 4 else 4 if panels % 4 == 0 else 3


def _line(part: Loaded, measure: Measure, look: str) -> Mark:
    track = part.tracks[measure.key]
    few = slice(1, None, 2) if len(track.x) > 60 and len(track.x) % 2 == 0 else slice(None)
    return Mark(
        "line", look, track.x[few].tolist(), track.mean[few].tolist(), track.se[few].tolist()
    )


def _counts_steps(record: Record, parts: Sequence[Loaded]) -> bool:
    return any(p.metric.startswith("steps") for part in parts for p in _published(record, part))


def _hollow(record: Record, part: Loaded, colours: dict[str, str]) -> list[Mark]:
    """What was published of a part, where it would lie on its curve."""
    if record.study.measures[0].key not in part.tracks:
        return []
    look = colours[label_of(record.study, part)].split()[0]
    last = float(part.tracks[record.study.measures[0].key].x[-1])
    found = []
    for number in _published(record, part):
        value = _middle(number)
        at = re.search(r"% at (\d+)", number.metric)
        if value is None or number.metric.startswith("all-fail"):
            continue
        place = (
            (value, record.study.threshold)
            if number.metric.startswith("steps")
            else (last, value / 100)
        )
        if at:
            place = float(at[1]), value / 100
        found.append(Mark("hollow", look, [place[0]], [place[1]]))
    return found


def _middle(number: Published) -> float | None:
    """The number that was printed, None for a bound and for never."""
    low, high = number.range
    return (low + high) / 2 if math.isfinite(high - low) else None


def _sweep(record: Record) -> Figure:
    """The last point of each curve against the axis, and what was published beside it."""
    study, measure = record.study, record.study.measures[0]
    values = [
        v
        for v in study.grid[study.sweep]
        if any(part.coords[study.sweep] == v for part in record.parts)
    ]
    colours = _looks((part.method, part.label) for part in record.parts)
    marks: list[Mark] = []
    for label, look in colours.items():
        members = [
            part for part in record.parts if part.label == label and measure.key in part.tracks
        ]
        xs = [float(values.index(part.coords[study.sweep])) for part in members]
        ends = [part.tracks[measure.key].last for part in members]
        errors = [float(standard_error(end)) for end in ends]
        marks.append(Mark("dots", look, xs, [float(end.mean()) for end in ends], errors))
        known = [
            (x, value / 100)
            for x, part in zip(xs, members, strict=True)
            for number in _published(record, part)
            if number.metric == "final error %" and (value := _middle(number)) is not None
        ]
        marks.append(Mark("hollow", look.split()[0], [x for x, _ in known], [y for _, y in known]))
    y = Axis(measure.label, measure.log, percent=True)
    panel = Panel("", Axis(study.sweep, names=[str(v) for v in values]), y, marks)
    note = "Mean over seeds at the last point, ± one standard error"
    return Figure(study.title, [panel], list(colours.items()), note=note)


def _league(record: Record) -> Figure:
    """Every objective's seeds at the end, the lowest mean on top."""
    measure = record.study.measures[0]
    parts = [part for part in record.parts if measure.key in part.tracks]
    parts.sort(key=lambda part: float(part.tracks[measure.key].end.mean()), reverse=True)
    marks = []
    for i, part in enumerate(parts):
        end = part.tracks[measure.key].end
        look = "m0" if part.method == "tpo" else "m6"
        marks.append(Mark("strip", look, end.tolist(), [float(i)] * len(end)))
        marks.append(Mark("hollow", look, [float(end.mean())], [float(i)]))
    x = Axis("error over the last 100 episodes", log=True, percent=True)
    panel = Panel("", x, Axis("", names=[part.label for part in parts]), marks)
    note = "A point per seed, a diamond for their mean; no number of this study was published"
    return Figure(record.study.title, [panel], [], height=70 + 17 * len(parts), note=note)


def _bars(record: Record) -> Figure:
    """The bars of a study that has no curves."""
    shown = exact_views.VIEWS[record.study.view](record.study, record.parts)
    found: list[dict[str, Any]] = [p for p in shown["panels"] if p.get("kind") == "bars"]
    labels = [s["label"] for panel in found for s in panel["series"]]
    colours = _looks((slug(label), label) for label in labels)
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
    return Figure(record.study.title, panels, list(colours.items()), columns=2)


def _floats(values: Sequence[float | None]) -> list[float]:
    return [math.nan if v is None else float(v) for v in values]

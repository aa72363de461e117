"""A figure from numbers, for a notebook or a page: lines over x, or bars over categories."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tpo.reports.styles import css_classes, slug
from tpo.reports.svg.axes import Axis
from tpo.reports.svg.draw import Figure, Mark, Panel
from tpo.stats.intervals import standard_error

Values = Sequence[float] | np.ndarray


def lines(
    series: Mapping[str, Values],
    xs: Values | None = None,
    *,
    title: str = "",
    x: str | Axis = "",
    y: str | Axis = "",
) -> Figure:
    """One line per label over `xs` (default 1, 2, ...). Values [seeds, n] are drawn as mean ± standard error.

    x, y: the axis, or only its label. A notebook shows the figure; `.svg()` is its text.
    """
    styles = _styles(series)
    marks = [_line(values, xs, styles[label]) for label, values in series.items()]
    return _figure(title, marks, _axis(x), _axis(y), styles)


def bars(
    series: Mapping[str, Values],
    names: Sequence[str],
    *,
    title: str = "",
    y: str | Axis = "",
) -> Figure:
    """For every name one bar per label, side by side."""
    styles = _styles(series)
    places = list(range(len(names)))
    marks = []
    for label, values in series.items():
        if len(values) != len(names):
            raise ValueError(
                f"series {label!r} has {len(values)} values for {len(names)} names: give one per name"
            )
        marks.append(Mark("bars", styles[label], places, [float(v) for v in values]))
    return _figure(title, marks, Axis("", names=list(names)), _axis(y), styles)


def side_by_side(*figures: Figure, title: str = "", columns: int = 2) -> Figure:
    """Figures of `lines` or `bars` side by side, under one legend; the same label has one style in all."""
    legend: dict[str, str] = {}
    for label, style in (pair for figure in figures for pair in figure.legend):
        if legend.setdefault(label, style) != style:
            raise ValueError(
                f"{label!r} has different colours in the figures: give each the same labels in one order"
            )
    drawn = [panel for figure in figures for panel in figure.panels]
    return Figure(title, drawn, list(legend.items()), columns=columns)


def _styles(series: Mapping[str, Any]) -> dict[str, str]:
    return css_classes((slug(label), label) for label in series)


def _axis(given: str | Axis) -> Axis:
    return Axis(given) if isinstance(given, str) else given


def _line(values: Values, xs: Values | None, style: str) -> Mark:
    found = np.atleast_2d(np.asarray(values, dtype=float))
    mean = found.mean(0).tolist()
    at = list(range(1, len(mean) + 1)) if xs is None else [float(v) for v in xs]
    if len(at) != len(mean):
        raise ValueError(f"xs has {len(at)} values and a series {len(mean)}: give as many")
    return Mark("line", style, at, mean, standard_error(found).tolist())


def _figure(
    title: str, marks: Sequence[Mark], x: Axis, y: Axis, styles: Mapping[str, str]
) -> Figure:
    legend = list(styles.items()) if len(styles) > 1 else []
    return Figure(title or y.label, [Panel(title, x, y, marks)], legend)

"""A figure as one SVG file without scripts: panels of lines, dots or bars, in light and dark colours."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from importlib.resources import files

from tpo.reports.html.elements import Html, element, joined
from tpo.reports.svg.axes import Axis, AxisScale

WIDTH = 880
CHARACTER = 6.1
"""Average width of a character of a label."""
LINE = 18
PADDING = 12


@dataclass(frozen=True)
class Mark:
    """Data in one colour; `style` holds its CSS classes.

    kind "line": ys over xs, with a band of ±error or between the limits in `band`. "dots": points joined by
    straight lines, with whiskers of ±error. "hollow": diamonds, for published numbers. "bars": next to the bars
    of other marks. "strip": points alone.
    """

    kind: str
    style: str
    xs: Sequence[float]
    ys: Sequence[float]
    error: Sequence[float] = ()
    band: Sequence[tuple[float, float]] = ()


@dataclass(frozen=True)
class Panel:
    """Marks on two axes; rules are horizontal reference lines."""

    title: str
    x: Axis
    y: Axis
    marks: Sequence[Mark]
    rules: Sequence[float] = ()


@dataclass(frozen=True)
class Figure:
    """Panels of equal size in rows, under one legend of (label, style).

    The legend has "published" if a panel has hollow marks. width and height: in pixels; 0 is the usual size.
    Text keeps its size, so a narrow figure reads well where there is little space.
    """

    title: str
    panels: Sequence[Panel]
    legend: Sequence[tuple[str, str]]
    columns: int = 4
    height: int = 0
    width: int = 0
    note: str = ""
    hollow: bool = field(init=False)

    def __post_init__(self) -> None:
        found = any(
            mark.kind == "hollow" and mark.xs for panel in self.panels for mark in panel.marks
        )
        object.__setattr__(self, "hollow", found)

    def _repr_svg_(self) -> str:
        return self.svg()

    def svg(self) -> str:
        """The file."""
        columns = max(1, min(self.columns, len(self.panels)))
        wide = self.width or (WIDTH if columns > 1 else 660)
        legend, top = _legend(self.legend, self.hollow, wide)
        size = (wide - 2 * PADDING) / columns
        height = self.height or round({1: 0.5, 2: 0.64}.get(columns, 0.82) * size)
        drawn = [
            element(
                "g",
                _panel(panel, size, height),
                transform=f"translate({_n(PADDING + i % columns * size)} {top + i // columns * height})",
            )
            for i, panel in enumerate(self.panels)
        ]
        bottom = top + -(-len(self.panels) // columns) * height
        note = element("text", self.note, x=PADDING + 4, y=bottom + 12, class_="note")
        total = bottom + (22 if self.note else 8)
        body = joined(
            element("title", self.title),
            Html(f"<style>{_css()}</style>"),
            element("rect", width=wide, height=total, rx=8, class_="paper"),
            legend,
            *drawn,
            note if self.note else None,
        )
        attributes = {"viewBox": f"0 0 {wide} {total}", "role": "img", "width": wide}
        opening = element("svg", body, xmlns="http://www.w3.org/2000/svg", **attributes)
        return opening.replace("</g>", "</g>\n") + "\n"


def _legend(items: Sequence[tuple[str, str]], hollow: bool, wide: float) -> tuple[Html, int]:
    """The legend in as many lines as it needs, and the y at which the panels begin."""
    if not items:
        return joined(), PADDING
    shown = [(label, style, False) for label, style in items]
    shown += [("published", "mp", True)] if hollow else []
    x, y, parts = float(PADDING + 4), PADDING + 10, []
    for label, style, is_hollow in shown:
        width = 30 + CHARACTER * len(label) + 12
        if x + width > wide - PADDING and x > PADDING + 4:
            x, y = float(PADDING + 4), y + LINE
        sign = (
            _diamond(x + 11, y - 4) if is_hollow else element("path", d=f"M{_n(x)} {y - 4}h22", class_="line")
        )  # fmt: skip
        text = element("text", label, x=_n(x + 28), y=y, class_="label")
        parts.append(element("g", sign, text, class_=style))
        x += width
    return joined(*parts), y + 12


def _panel(panel: Panel, width: float, height: float) -> Html:
    """One panel of that size, with its own axes."""
    left = 46 if not panel.y.names else 14 + CHARACTER * max(map(len, panel.y.names))
    box = (left, 24.0, width - 18, height - 36.0)
    across = AxisScale.of(panel.x, _extent(panel, "x"), box[0], box[2])
    up = AxisScale.of(panel.y, _extent(panel, "y"), box[3], box[1])
    bars = [mark for mark in panel.marks if mark.kind == "bars"]
    return joined(
        element("text", panel.title, x=8, y=13, class_="title", style=_fitting(panel.title, width)),
        *_grid(across, up, box, panel),
        *(
            element("path", d=f"M{_n(box[0])} {_n(up(rule))}H{_n(box[2])}", class_="rule")
            for rule in panel.rules
        ),
        *(_drawn(mark, across, up, bars) for mark in panel.marks),
        element("text", panel.x.label, x=_n((box[0] + box[2]) / 2), y=_n(height - 6), class_="middle"),
    )  # fmt: skip


def _fitting(title: str, width: float) -> str | None:
    """A smaller font size for a title that is too long for its panel."""
    size = 11 * (width - 14) / (1.06 * CHARACTER * max(len(title), 1))
    return f"font-size:{size:.1f}px" if size < 11 else None


def _extent(panel: Panel, name: str) -> list[float]:
    """The numbers that an axis must include: positive ones for a log axis, also 0 for bars."""
    axis: Axis = getattr(panel, name)
    values = [v for mark in panel.marks for v in getattr(mark, f"{name}s") if math.isfinite(v)]
    if name == "y":
        values += [v for mark in panel.marks for ends in mark.band for v in ends]
        values += [
            y + e for m in panel.marks for y, e in zip(m.ys, m.error, strict=False) if not axis.log
        ]
        if any(mark.kind == "bars" for mark in panel.marks):
            values += [
                0.0,
                1.05 * max(values, default=1.0),
                *(y - e for m in panel.marks for y, e in zip(m.ys, m.error, strict=False)),
            ]
    return [v for v in values if v > 0] if axis.log else values


def _grid(
    across: AxisScale, up: AxisScale, box: tuple[float, float, float, float], panel: Panel
) -> Iterator[Html]:
    left, top, right, bottom = box
    for value, label in up.ticks():
        y = up(value)
        yield element("path", d=f"M{_n(left)} {_n(y)}H{_n(right)}", class_="grid")
        yield element("text", label, x=_n(left - 5), y=_n(y + 3.5), class_="end")
    if CHARACTER * (len(panel.title) + len(panel.y.label)) < right - left:
        yield element("text", panel.y.label, x=_n(right), y=_n(top - 11), class_="end")
    labels = across.ticks()
    slot = (right - left) / max(1, len(labels))
    longest = max((len(text) for _, text in labels), default=1)
    every = max(1, math.ceil(CHARACTER * longest / max(slot, 1)))
    for value, label in labels[:: every if not panel.x.names else 1]:
        x = across(value)
        if not panel.x.names:
            yield element("path", d=f"M{_n(x)} {_n(bottom)}v3", class_="tick")
        yield element("text", label, x=_n(x), y=_n(bottom + 14), class_="middle")


def _drawn(mark: Mark, across: AxisScale, up: AxisScale, bars: Sequence[Mark]) -> Html:
    error = mark.error or [0.0] * len(mark.ys)
    band = mark.band or [(y - e, y + e) for y, e in zip(mark.ys, error, strict=True)]
    known = [
        (across(x), up(y), up(high), up(low))
        for x, y, (low, high) in zip(mark.xs, mark.ys, band, strict=True)
        if math.isfinite(y)
    ]
    if mark.kind == "bars":
        shapes = list(_bar_shapes(mark, bars, across, up))
    elif mark.kind == "hollow":
        shapes = [_diamond(x, y) for x, y, *_ in known]
    elif mark.kind == "strip":
        shapes = [element("circle", cx=_n(x), cy=_n(y), r=3, class_="seed") for x, y, *_ in known]
    else:
        shapes = list(_line_shapes(mark, known))
    return element("g", *shapes, class_=mark.style)


def _line_shapes(mark: Mark, known: Sequence[tuple[float, ...]]) -> Iterator[Html]:
    centre = _path((x, y) for x, y, *_ in known)
    if mark.kind == "line":
        if any(mark.error) or mark.band:
            edge = [(x, high) for x, _, high, _ in known] + [
                (x, low) for x, *_, low in reversed(known)
            ]
            yield element("path", d=_path(edge) + "z", class_="band")
        yield element("path", d=centre, class_="line")
        return
    yield element("path", d=centre, class_="line")
    for x, y, high, low in known:
        yield element("path", d=f"M{_n(x)} {_n(high)}V{_n(low)}", class_="whisker")
        yield element("circle", cx=_n(x), cy=_n(y), r=3.2, class_="dot")


def _bar_shapes(
    mark: Mark, bars: Sequence[Mark], across: AxisScale, up: AxisScale
) -> Iterator[Html]:
    slot = abs(across(1) - across(0)) * 0.78
    width = slot / len(bars)
    shift = bars.index(mark) * width - slot / 2
    for x, y, e in zip(mark.xs, mark.ys, mark.error or [0.0] * len(mark.ys), strict=True):
        if not math.isfinite(y):
            continue
        a, b = sorted((up(0), up(y)))
        place = across(x) + shift
        yield element(
            "rect",
            x=_n(place),
            y=_n(a),
            width=_n(width - 1),
            height=_n(max(b - a, 0.8)),
            class_="bar",
        )
        if e:
            high, low = up(y + e), up(y - e)
            yield element(
                "path", d=f"M{_n(place + width / 2)} {_n(high)}V{_n(low)}", class_="whisker"
            )


def _diamond(x: float, y: float) -> Html:
    return element("path", d=f"M{_n(x)} {_n(y - 4.5)}l4.5 4.5l-4.5 4.5l-4.5-4.5z", class_="hollow")


def _path(points: Iterable[tuple[float, float]]) -> str:
    """A path through the points in relative steps, rounded to a tenth of a pixel."""
    words: list[str] = []
    before: tuple[int, int] | None = None
    for x, y in points:
        here = round(10 * x), round(10 * y)
        if before is None:
            words.append(f"M{here[0] / 10:g} {here[1] / 10:g}")
        elif here != before:
            words.append(f"l{(here[0] - before[0]) / 10:g} {(here[1] - before[1]) / 10:g}")
        before = here
    return "".join(words)


def _n(value: float) -> str:
    return f"{round(value, 1):g}"


@lru_cache(maxsize=1)
def _css() -> str:
    """The colours of the report's style sheet, light and dark, and the rules of a figure."""
    css = (files("tpo.reports.html") / "assets/style.css").read_text(encoding="utf-8")
    pattern = r"light-dark\((#\w+), (#\w+)\)"
    hues = re.findall(rf"\.(m\d) {{ --c: {pattern}; }}", css)
    inks = re.findall(rf"--(paper|line|grid|ink|soft): {pattern};", css)
    dashes = "".join(
        f".{d}{{--dash:{v}}}" for d, v in re.findall(r"\.(d\d) { --dash: ([\d ]+); }", css)
    )

    def theme(i: int) -> str:
        colours = "".join(f".{found[0]}{{--c:{found[i]}}}" for found in hues)
        return "svg{" + "".join(f"--{found[0]}:{found[i]};" for found in inks) + "}" + colours

    return (
        f"{theme(1)}.mp{{--c:var(--soft)}}@media(prefers-color-scheme:dark){{{theme(2)}}}{dashes}"
        "text{font:11px system-ui,-apple-system,'Segoe UI',Roboto,sans-serif;fill:var(--soft)}"
        ".title{font-weight:600;fill:var(--ink)}.label{fill:var(--ink)}"
        ".middle{text-anchor:middle}.end{text-anchor:end}.note{font-size:10px}"
        ".paper{fill:var(--paper);stroke:var(--line)}.grid{stroke:var(--grid)}"
        ".tick{stroke:var(--soft)}.rule{stroke:var(--soft);stroke-dasharray:2 3}"
        ".line{fill:none;stroke:var(--c);stroke-width:1.7;stroke-linejoin:round;stroke-dasharray:var(--dash,none)}"
        ".band{fill:var(--c);fill-opacity:.15}.whisker{stroke:var(--c);stroke-width:1.2}"
        ".dot,.bar{fill:var(--c)}.seed{fill:var(--c);fill-opacity:.55}"
        ".hollow{fill:var(--paper);fill-opacity:.6;stroke:var(--c);stroke-width:1.5}"
    )

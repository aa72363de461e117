"""Summaries prepared for a page: finite and short numbers, a key and CSS classes for every series."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from tpo.reports.styles import ALIASES, OWN, css_classes, slug

DIGITS = 5
"""Significant digits of a curve's numbers."""


def prepared(study: Mapping[str, Any]) -> dict[str, Any]:
    """A copy of one study's summary in which series have a `key` and a `style`, their CSS classes.

    Bars named after methods have `styles` instead, one for each bar.
    """
    found: dict[str, Any] = plain(study)
    found.setdefault("panels", [])
    classes = css_classes(_series_of(found))
    for panel in found["panels"]:
        panel.setdefault("series", [])
        for series in panel["series"]:
            _add_style(series, classes)
        if panel.get("kind") == "bars" and len(panel["series"]) == 1:
            _style_bars(panel["series"][0])
    found["styles"] = {s["key"]: s["style"] for panel in found["panels"] for s in panel["series"]}
    for profile in found.get("profiles") or []:
        _add_style(profile, classes)
    return found


def _series_of(study: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for holder in (*study["panels"], {"series": study.get("profiles") or []}):
        for series in holder.get("series", ()):
            yield str(series.get("method") or slug(series.get("label"))), str(series.get("label"))


def _add_style(series: dict[str, Any], classes: Mapping[str, str]) -> None:
    series["key"] = str(series.get("label"))
    series["style"] = classes[series["key"]]


def _style_bars(series: dict[str, Any]) -> None:
    """Give each bar the colour of the method that it is named after; only if all are named so."""
    names = [str(name) for name in series.get("x", ())]
    if not all(slug(name) in {*OWN, *ALIASES} for name in names):
        return
    classes = css_classes((slug(name), name) for name in names)
    series["styles"] = [classes[name] for name in names]


def plain(x: Any) -> Any:
    """A deep copy with rounded floats, and None for NaN and infinities."""
    if isinstance(x, Mapping):
        return {str(key): plain(value) for key, value in x.items()}
    if isinstance(x, str):
        return x
    if isinstance(x, Iterable):
        return [plain(value) for value in x]
    if isinstance(x, float):
        return float(f"{x:.{DIGITS}g}") if math.isfinite(x) else None
    return x


def script_json(data: object) -> str:
    """JSON that is safe inside a script element: nothing in it can end the element or open another."""
    text = json.dumps(data, allow_nan=False, separators=(",", ":"))
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text

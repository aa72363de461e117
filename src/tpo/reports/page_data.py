"""Summaries prepared for a page: finite and short numbers, a key and CSS classes for every series."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from tpo.reports.labels import readable, renamed, shortened, verdict_in_words
from tpo.reports.panels import highlighted, main_panels
from tpo.reports.story import answer
from tpo.reports.styles import ALIASES, OWN, css_classes, slug

DIGITS = 5
"""Significant digits of a curve's numbers."""


MEASURES = {
    "held-out accuracy of samples": "held-out accuracy, sampled answers",
    "held-out greedy accuracy": "held-out accuracy, greedy answers",
    "reward": "reward of the training rollouts",
    "entropy": "entropy per token (nats)",
    "completions/mean_length": "mean completion length (tokens)",
    "groups/zero_variance": "share of zero-variance groups",
    "KL from the start": "KL from the initial model",
}
"""Measures of language models, and how a figure calls them."""


def prepared(study: Mapping[str, Any]) -> dict[str, Any]:
    """A copy of one study's summary as a page needs it.

    Series have a `key`, a `style` (their CSS classes) and a label in words, which rows and claims use as well;
    bars named after methods have `styles` instead, one for each bar. Options that all methods share are in
    `shared`. A panel says whether it is `main`. `answer` is what was found, `highlight` the keys of the lines
    to see first among many.
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
    for profile in found.get("profiles") or []:
        _add_style(profile, classes)
    names, found["shared"] = shortened(series["key"] for series in _all_series(found))
    _rename(found, names)
    for panel, main in zip(found["panels"], main_panels(found["panels"]), strict=True):
        panel["main"] = main
    found["styles"] = {s["label"]: s["style"] for panel in found["panels"] for s in panel["series"]}
    found["answer"], found["highlight"] = answer(found), highlighted(found)
    return found


def _series_of(study: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for series in _all_series(study):
        yield str(series.get("method") or slug(series.get("label"))), str(series.get("label"))


def _all_series(study: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    for holder in (*study["panels"], {"series": study.get("profiles") or []}):
        yield from holder.get("series", ())


def _add_style(series: dict[str, Any], classes: Mapping[str, str]) -> None:
    series["key"] = str(series.get("label"))
    series["style"] = classes[series["key"]]


def _rename(study: dict[str, Any], names: Mapping[str, str]) -> None:
    """Write these names into series, rows, claims and methods."""
    specifications: dict[str, str] = {}
    for series in _all_series(study):
        series["label"] = names[series["key"]]
        specifications[str(series.get("method"))] = series["label"]
    for row in (study.get("table") or {}).get("rows") or ():
        method = str(row.get("method"))
        row["label"] = names.get(method) or specifications.get(method) or readable(method)
    for one in study.get("methods") or ():
        one["label"] = names.get(one["label"], readable(one["label"]))
    if "verdicts" in study:
        study["verdicts"] = [verdict_in_words(one, names) for one in study["verdicts"] or ()]
    for panel in study["panels"]:
        panel["title"] = MEASURES.get(str(panel.get("title")), panel.get("title"))
        if y := panel.get("y"):
            y["label"] = MEASURES.get(str(y.get("label")), y.get("label"))
    of_models = specifications if study.get("methods") else {}
    study["about"] = renamed(str(study.get("about") or ""), of_models)


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

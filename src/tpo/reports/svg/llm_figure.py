"""The figure of a comparison of language models: accuracy and other measures against rollouts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tpo.reports.labels import shortened
from tpo.reports.styles import css_classes
from tpo.reports.svg.axes import Axis
from tpo.reports.svg.draw import Figure, Mark, Panel

DRAWN = ("sampled", "pass_at_k", "entropy", "kl")
"""Measures that the figure shows, if the comparison has their curves."""
BANDS = 6
"""With more methods than this no intervals are drawn, because they would overlap."""
LINES = 10
"""With more methods than this, each is drawn only at its learning rate with the highest final accuracy."""

Series = Mapping[str, Any]


def figure(summary: Mapping[str, Any], title: str = "") -> Figure:
    """Accuracy, entropy and KL against rollouts; `title` replaces the comparison's own."""
    known = {panel["coords"]["measure"]: panel for panel in summary["panels"]}
    chosen = [known[name] for name in DRAWN if name in known]
    methods = {s["method"]: s["label"] for panel in chosen for s in panel["series"]}
    shown = methods
    if len(methods) > LINES and "sampled" in known:
        best = _best_rates(known["sampled"]["series"])
        shown = {method: label for method, label in methods.items() if method in best}
    colours = css_classes(shown.items())
    bands = len(shown) <= BANDS
    goal = next((m["threshold"] for m in summary["methods"] if m["threshold"] is not None), None)
    panels = [
        Panel(
            panel["title"],
            Axis("rollouts"),
            Axis("", percent=panel["coords"]["measure"] in ("sampled", "pass_at_k")),
            [_line(s, colours[s["label"]], bands) for s in panel["series"] if s["method"] in shown],
            [goal] if goal is not None and panel["coords"]["measure"] == "sampled" else [],
        )
        for panel in chosen
    ]
    note = (
        "On held-out prompts: interquartile mean over seeds, 95% interval. In training: mean ± standard error"
        if bands
        else "On held-out prompts: interquartile mean over seeds. In training: mean. The table has intervals"
    )
    if len(shown) < len(methods):
        note = f"Each method at its best learning rate; the table has the others. {note}"
    names, shared = shortened(shown.values())
    if shared:
        note = f"All with {', '.join(shared)}. {note}"
    legend = [(names[label], colours[label]) for label in shown.values()]
    return Figure(
        title or summary["title"], panels, legend, columns=3 if len(panels) == 3 else 2, note=note
    )


def _best_rates(sampled: Sequence[Series]) -> set[str]:
    """Of methods that differ only in the learning rate, the one with the highest final sampled accuracy."""
    best: dict[str, Series] = {}
    for series in sampled:
        parts = series["method"].split(":")
        name = ":".join(part for part in parts if not part.startswith("learning_rate="))
        if name not in best or series["mean"][-1] > best[name]["mean"][-1]:
            best[name] = series
    return {series["method"] for series in best.values()}


def _line(series: Series, style: str, band: bool) -> Mark:
    middle = series.get("iqm", series["mean"])
    if not band:
        return Mark("line", style, series["x"], middle)
    if "iqm" not in series:
        return Mark("line", style, series["x"], middle, series["se"])
    ends = [
        (y if low is None else low, y if high is None else high)
        for y, low, high in zip(series["iqm"], series["iqm_low"], series["iqm_high"], strict=True)
    ]
    return Mark("line", style, series["x"], series["iqm"], band=ends)

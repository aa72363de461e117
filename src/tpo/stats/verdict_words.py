"""Metrics and settings in the words of a verdict."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tpo.stats.curves import MedianSteps

COUNTS = ("steps", "rollouts")
"""Metrics that count up to a threshold."""


def shown(metric: str, x: np.ndarray) -> str:
    """The mean, and the median in brackets, as text; of steps the median, and how many seeds get there."""
    x = x[~np.isnan(x)]
    if not len(x):
        return "without a number"
    if metric in COUNTS:
        median = MedianSteps.of(x)
        value = f"{median.value:.0f} {metric}" if np.isfinite(median.value) else "never"
        seeds = "1 seed gets" if len(x) == 1 else f"{len(x)} seeds get"
        return f"{value} (median, {median.reached} of {seeds} there)"
    return f"{amount(metric, float(np.mean(x)))} (median {amount(metric, float(np.median(x)))})"


def amount(metric: str, value: float) -> str:
    """A value of the metric as text: errors in percent."""
    if metric in COUNTS:
        return f"{value:.0f} {metric}"
    return f"{100 * value:.3g}%" if metric in ("end", "held-out error") else f"{value:.3g}"


def place(coords: Mapping[str, object]) -> str:
    """`H = 7, matching = prompt: `; empty without coordinates."""
    words = ", ".join(f"{key} = {value}" for key, value in coords.items())
    return f"{words}: " if words else ""

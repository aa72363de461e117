"""Ratios of running times, measured alternately so that other load affects both sides alike."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any, NotRequired, TypedDict


class BenchmarkRow(TypedDict):
    """A running time beside that of a baseline."""

    name: str
    microseconds: float
    """median time of one call"""
    baseline: str
    baseline_microseconds: float
    ratio: float
    """median over rounds of ours/baseline; below 1 is faster"""
    unit: NotRequired[str]
    """if not µs: the two "microseconds" are then in millionths of this unit"""


def compared(
    name: str,
    ours: Callable[[], Any],
    baseline_name: str,
    baseline: Callable[[], Any],
    rounds: int = 15,
    calls: int = 50,
) -> BenchmarkRow:
    """Time both in alternating rounds; the ratio is the median of the rounds' ratios."""
    for function in (ours, baseline):
        timed(function, calls)
    pairs = [(timed(ours, calls), timed(baseline, calls)) for _ in range(rounds)]
    return BenchmarkRow(
        name=name,
        microseconds=1e6 * statistics.median(mine for mine, _ in pairs),
        baseline=baseline_name,
        baseline_microseconds=1e6 * statistics.median(other for _, other in pairs),
        ratio=statistics.median(mine / other for mine, other in pairs),
    )


def timed(function: Callable[[], Any], calls: int) -> float:
    """Median seconds of one call."""
    times = []
    for _ in range(calls):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return statistics.median(times)

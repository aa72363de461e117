"""Axes of a figure: their ranges, positions and tick labels."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

LOWEST = 2e-5
"""A log axis reaches down to at most this fraction of its top."""


@dataclass(frozen=True)
class Axis:
    """An axis. log: logarithmic. percent: fractions shown in percent. names: of categories at 0, 1, 2, ..."""

    label: str
    log: bool = False
    percent: bool = False
    names: Sequence[str] = ()
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class AxisScale:
    """A map from numbers to positions."""

    axis: Axis
    low: float
    high: float
    begin: float
    end: float

    @classmethod
    def of(cls, axis: Axis, values: Sequence[float], begin: float, end: float) -> AxisScale:
        """A scale that covers the values, or the limits of the axis where it has them."""
        if axis.names:
            return cls(axis, -0.6, len(axis.names) - 0.4, begin, end)
        low = min(values, default=0.1) if axis.low is None else axis.low
        high = max(values, default=1.0) if axis.high is None else axis.high
        if axis.log:
            low = max(low, LOWEST * high)
            steps = _log_steps(low, high, fine=high < 100 * low)
            low = max(step for step in steps if step <= 1.001 * low)
            high = min(step for step in steps if step >= high / 1.001 and step > low)
            return cls(axis, low, high, begin, end)
        low = min(low, 0.0)
        return cls(axis, low, high if high > low else low + 1, begin, end)

    def __call__(self, value: float) -> float:
        if self.axis.log:
            inside = min(max(value, self.low), self.high)
            share = math.log(inside / self.low) / math.log(self.high / self.low)
        else:
            share = (min(max(value, self.low), self.high) - self.low) / (self.high - self.low)
        return self.begin + share * (self.end - self.begin)

    def ticks(self) -> list[tuple[float, str]]:
        """The values of grid lines, with their labels."""
        if self.axis.names:
            return list(enumerate(self.axis.names))
        if self.axis.log:
            steps = _log_steps(self.low, self.high, fine=self.high < 700 * self.low)
            inside = [step for step in steps if self.low <= step <= self.high]
            return [(step, self._label(step)) for step in inside[:: -(-len(inside) // 9)]]
        raw = (self.high - self.low) / 4
        unit = 10 ** math.floor(math.log10(raw))
        step = next(m * unit for m in (1, 2, 2.5, 5, 10) if m * unit >= raw)
        first, last = math.ceil(self.low / step - 1e-9), math.floor(self.high / step + 1e-9)
        return [(i * step, self._label(i * step)) for i in range(first, last + 1)]

    def _label(self, value: float) -> str:
        if self.axis.percent:
            return f"{100 * value:.10g}%"
        if value >= 1000:
            return f"{value:,.10g}"
        if value and abs(value) < 1e-3:
            return f"{value:.0e}".replace("e-0", "e-")
        return f"{value:.10g}"


def _log_steps(low: float, high: float, fine: bool) -> list[float]:
    """The decades from below low to above high; if fine, also 2 and 5 in each."""
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    steps = (1, 2, 5) if fine else (1,)
    return [float(f"{m}e{e}") for e in range(first - 1, last + 2) for m in steps]

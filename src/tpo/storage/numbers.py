"""Floats as JSON numbers: rounded to a few significant digits, None for NaN and infinity."""

from __future__ import annotations

from typing import Any

import numpy as np


def plain(values: Any, digits: int = 5) -> list[float | None]:
    """JSON numbers with this many significant digits; None for NaN and infinity."""
    return [number(v, digits) for v in np.asarray(values, float)]


def number(value: Any, digits: int = 5) -> float | None:
    """One JSON number; None for NaN and infinity."""
    value = float(value)
    return float(f"{value:.{digits}g}") if np.isfinite(value) else None

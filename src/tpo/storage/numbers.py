"""Numbers as JSON has them: short, and None for what is no number."""

from __future__ import annotations

from typing import Any

import numpy as np


def plain(values: Any, digits: int = 5) -> list[float | None]:
    """JSON numbers of so many significant digits; None where there is no number."""
    return [number(v, digits) for v in np.asarray(values, float)]


def number(value: Any, digits: int = 5) -> float | None:
    """One JSON number, or None."""
    value = float(value)
    return float(f"{value:.{digits}g}") if np.isfinite(value) else None

"""How much a method depends on its settings: the share of settings that learn, the worst and the median one."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

LEARNED = 0.1
"""A setting learns if its error ends below this."""


class Sensitivity(NamedTuple):
    """Of one method over many settings."""

    shares: np.ndarray
    """[seeds] the share of settings that learn"""
    worst: float
    """The error of the worst setting, the mean over seeds"""
    median: float
    """The error of the median setting, the mean over seeds"""

    @property
    def share(self) -> float:
        """The mean over seeds."""
        return float(self.shares.mean())


def sensitivity(ends: np.ndarray, learned: float = LEARNED) -> Sensitivity:
    """ends: [settings, seeds] the error at the end of each run; a run that diverged (NaN) has an error of 1."""
    ends = np.where(np.isnan(ends), 1.0, ends)
    means = ends.mean(1)
    return Sensitivity((ends < learned).mean(0), float(means.max()), float(np.median(means)))

"""Statistics of learning curves: steps to a threshold, final values, performance profiles."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tpo.stats.intervals import CONFIDENCE, Interval, percentiles, rerun_weights


def solved(errors: np.ndarray, threshold: float = 0.01) -> int:
    """How many seeds end below the threshold."""
    return int((np.asarray(errors) < threshold).sum())


def steps_to(x: np.ndarray, curve: np.ndarray, threshold: float = 0.01) -> int | None:
    """The first x at which a curve is below the threshold; None if it never is.

    On the mean over seeds this is the paper's "steps to 1%"; on one seed, that seed's.
    """
    below = np.flatnonzero(np.asarray(curve) < threshold)
    return int(x[below[0]]) if len(below) else None


def first_reach(x: np.ndarray, curve: np.ndarray, threshold: float) -> float | None:
    """The x at which a curve first reaches the threshold from below, interpolated; None if it never does."""
    above = np.flatnonzero(np.asarray(curve) >= threshold)
    if not len(above):
        return None
    i = int(above[0])
    if i == 0:
        return float(x[0])
    part = (threshold - curve[i - 1]) / (curve[i] - curve[i - 1])
    return float(x[i - 1] + part * (x[i] - x[i - 1]))


def goal(curve: np.ndarray, share: float) -> float | None:
    """start + share·(end - start): the value at this share of a curve's gain; None if it does not gain."""
    start, end = curve[0], curve[-1]
    return min(float(start + share * (end - start)), float(end)) if end > start else None


def seed_steps(x: np.ndarray, curves: np.ndarray, threshold: float = 0.01) -> np.ndarray:
    """[seeds] each seed's own steps to the threshold; the last x plus 1 if it never gets there."""
    found = [steps_to(x, curve, threshold) for curve in curves]
    return np.array([x[-1] + 1 if step is None else step for step in found], float)


class MedianSteps(NamedTuple):
    """The median seed's steps to a threshold, infinite for never; its 95% interval; how many get there."""

    value: float
    interval: Interval
    reached: int

    @classmethod
    def of(cls, steps: np.ndarray) -> MedianSteps:
        """From each seed's steps, infinite (censored) for one that does not get there within its run.

        The median is known if more than half of the seeds get there. The interval is between two ordered
        values, chosen by the binomial distribution; without ends for fewer than six seeds, which have none.
        """
        from scipy.special import bdtr

        ordered = np.sort(np.asarray(steps, float))
        n = len(ordered)
        reached = int(np.isfinite(ordered).sum())
        outer = int((bdtr(np.arange(n), n, 0.5) <= (1 - CONFIDENCE) / 2).sum())
        ends = (ordered[outer - 1], ordered[n - outer]) if outer else (np.nan, np.nan)
        return cls(float(np.median(ordered)), Interval(*map(float, ends)), reached)


def tail_length(points: int) -> int:
    """How many of a curve's last points its final value is averaged over: a tenth of them, from 1 to 100."""
    return max(1, min(100, points // 10))


def tail(curves: np.ndarray) -> np.ndarray:
    """[seeds] the final value of each curve [seeds, points]: the mean over its `tail_length` last points."""
    return np.asarray(curves, float)[:, -tail_length(curves.shape[1]) :].mean(1)


def performance_profile(strata: Sequence[np.ndarray], taus: np.ndarray) -> np.ndarray:
    """[taus] the share of runs with an error of at most tau, averaged over settings."""
    shares = [(np.asarray(x)[:, None] <= taus).mean(0) for x in strata]
    return np.mean(shares, axis=0)


def rerun_steps(x: np.ndarray, curves: np.ndarray, threshold: float = 0.01) -> Interval:
    """The 95% range of the first x at which a repetition's mean curve is below the threshold, by bootstrap.

    Infinite if it never is. Too narrow for few seeds: `tpo.stats.repetition.repeated_steps` widens it.
    """
    if len(curves) < 2:
        return Interval(np.nan, np.nan)
    below = rerun_weights(len(curves)) @ np.asarray(curves, float) < threshold
    return percentiles(np.where(below.any(1), x[below.argmax(1)], np.inf))

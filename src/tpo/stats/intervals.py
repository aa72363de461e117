"""Means over seeds and their intervals: interquartile mean, bootstrap, Student's t.

Seeds are bimodal here, so a mean is always reported with an interval or a median. The interquartile mean and
its stratified bootstrap interval follow Agarwal et al., arXiv 2108.13264 (rliable).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

RESAMPLES = 2000
CONFIDENCE = 0.95

Statistic = Callable[[np.ndarray], np.ndarray]
"""From [..., n] to [...]."""


class Interval(NamedTuple):
    """An interval; both ends are NaN if there is a single seed."""

    low: float
    high: float


def mean(x: np.ndarray) -> np.ndarray:
    """The mean over the last axis."""
    return np.asarray(x, float).mean(-1)


def iqm(x: np.ndarray) -> np.ndarray:
    """The interquartile mean over the last axis: int(n/4) values are dropped at either end."""
    ordered = np.sort(np.asarray(x, float), axis=-1)
    n = ordered.shape[-1]
    dropped = int(0.25 * n)
    return ordered[..., dropped : n - dropped].mean(-1)


def interval(
    strata: Sequence[np.ndarray],
    statistic: Statistic = iqm,
    confidence: float = CONFIDENCE,
    seed: int = 0,
) -> Interval:
    """The stratified bootstrap interval of a statistic of all runs.

    strata: one array [seeds] per setting; seeds are resampled within their setting.
    """
    if not len(strata) or max(len(x) for x in strata) < 2:
        return Interval(np.nan, np.nan)
    drawn = resampled(strata, seed)
    tail = (1 - confidence) / 2
    low, high = np.quantile(statistic(drawn), (tail, 1 - tail))
    return Interval(float(low), float(high))


def resampled(strata: Sequence[np.ndarray], seed: int = 0) -> np.ndarray:
    """[resamples, runs] bootstrap samples; every stratum is resampled from itself."""
    rng = np.random.default_rng(seed)
    parts = []
    for values in strata:
        x = np.asarray(values, float)
        parts.append(x[rng.integers(len(x), size=(RESAMPLES, len(x)))])
    return np.concatenate(parts, axis=-1)


def student_reach(x: np.ndarray, confidence: float = CONFIDENCE) -> np.ndarray:
    """[...] how far Student's interval of the mean goes to either side; NaN for fewer than two values.

    The bootstrap interval is too narrow for few values. Without an effect it excludes zero 27 times in 100
    for 3 normal values, 16 times for 5, and 9 times for 10.
    """
    from scipy.special import stdtrit

    x = np.asarray(x, float)
    n = x.shape[-1]
    if n < 2:
        return np.full(x.shape[:-1], np.nan)
    return np.asarray(stdtrit(n - 1, (1 + confidence) / 2) * x.std(-1, ddof=1) / n**0.5)


def student_interval(x: np.ndarray) -> Interval:
    """Student's 95% interval of the mean of x [n]."""
    middle, reach = float(np.mean(x)), float(student_reach(x))
    return Interval(middle - reach, middle + reach)


def difference(left: np.ndarray, right: np.ndarray) -> Interval:
    """`student_interval` of left - right, paired over seeds.

    Runs of one seed share their data and, with the same policy, their initial parameters. If one side has more
    seeds, its first ones are used.
    """
    n = min(len(left), len(right))
    return student_interval(np.asarray(left, float)[:n] - np.asarray(right, float)[:n])


@lru_cache(maxsize=64)
def rerun_weights(n: int, seed: int = 0) -> np.ndarray:
    """[resamples, n] the weight of each of n seeds in a simulated repetition of the experiment.

    Seeds are resampled twice: once because ours are only a sample, and once for the seeds of the repetition.
    """
    rng = np.random.default_rng(seed)
    first = rng.integers(n, size=(RESAMPLES, n))
    again = np.take_along_axis(first, rng.integers(n, size=(RESAMPLES, n)), axis=1)
    return np.stack([np.bincount(row, minlength=n) for row in again]) / n


def percentiles(drawn: np.ndarray, confidence: float = CONFIDENCE) -> Interval:
    """The central interval of the samples. Its ends are samples, not interpolated, so they may be infinite."""
    outside = (1 - confidence) / 2
    low, high = np.quantile(drawn, (outside, 1 - outside), method="inverted_cdf")
    return Interval(float(low), float(high))


def standard_error(x: np.ndarray) -> np.ndarray:
    """The standard error of the mean over the first axis, with n - 1 in the variance; 0 for fewer than two."""
    n = len(x)
    if n < 2:
        return np.zeros(x.shape[1:])
    return np.asarray(x, float).std(0, ddof=1) / np.sqrt(n)

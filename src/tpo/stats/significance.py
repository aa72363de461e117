"""Tests of differences between two methods, paired over seeds: of one comparison, of many, and of all together.

Differences are [..., n], NaN for a missing seed; leading axes are further comparisons or simulations. Two equal
methods may be exchanged seed by seed, so their differences are symmetric, whatever the distribution of the
seeds. `tools/verdict_rates.py` prints how often they differ significantly all the same: at most 6%.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tpo.stats.intervals import CONFIDENCE, student_interval

LEAST = 3
"""The smallest number of seeds for a verdict."""
UNANIMOUS = 6
"""By chance so many differences have one sign 1 time in 32. One outlier makes Student's interval wide."""
LEVEL_OF_TEST = 1 - CONFIDENCE
POWER = 0.8


def p_values(differences: np.ndarray) -> np.ndarray:
    """[...] two-sided p of no difference, by Student's t; 1 with fewer than LEAST seeds.

    It is at most 2/2^n if all of six or more seeds have one sign. And it is at least 2/4^n: so often do two
    equal methods, whose seeds end in one of two places, differ in one way on all seeds, without any spread.
    """
    from scipy.special import stdtr

    x = np.asarray(differences, float)
    n, mean, error = _moments(x)
    with np.errstate(divide="ignore", invalid="ignore"):
        p = np.where(mean == 0, 1.0, 2 * stdtr(np.maximum(n - 1, 1), -np.abs(mean) / error))
    one_sign = (np.sum(x > 0, -1) == n) | (np.sum(x < 0, -1) == n)
    p = np.where(one_sign & (n >= UNANIMOUS), np.minimum(p, 2 / 2.0**n), p)
    return np.where(n < LEAST, 1.0, np.maximum(p, np.minimum(1, 2 / 4.0**n)))


def _moments(x: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """[...] the number of seeds, their mean, and its standard error."""
    known = ~np.isnan(x)
    n = known.sum(-1)
    mean = np.where(known, x, 0).sum(-1) / np.maximum(n, 1)
    squares = np.where(known, (x - mean[..., None]) ** 2, 0).sum(-1)
    return n, mean, np.sqrt(squares / np.maximum(n - 1, 1) / np.maximum(n, 1))


def holm(p: np.ndarray) -> np.ndarray:
    """[..., m] the p values of m tests, corrected for their number by Holm's method."""
    order = np.argsort(p, axis=-1)
    m = p.shape[-1]
    ranked = np.take_along_axis(p, order, -1) * (m - np.arange(m))
    corrected = np.minimum(np.maximum.accumulate(ranked, axis=-1), 1)
    return np.take_along_axis(corrected, np.argsort(order, axis=-1), -1)


def seed_effects(differences: np.ndarray) -> np.ndarray:
    """[..., n] per seed the mean over m comparisons of its difference, in units of their root mean square.

    differences: [..., m, n]. Comparisons may share runs: a seed counts once, however many there are.
    """
    x = np.asarray(differences, float)
    known = ~np.isnan(x)
    n = known.sum(-1, keepdims=True)
    size = np.sqrt(np.where(known, x**2, 0).sum(-1, keepdims=True) / np.maximum(n, 1))
    scaled = np.where(known, x, 0) / np.where(size > 0, size, 1)
    count = known.sum(-2)
    return np.where(count > 0, scaled.sum(-2) / np.maximum(count, 1), np.nan)


def refuted(differences: np.ndarray, rivals: Sequence[str]) -> np.ndarray:
    """[...] whether a claim that all m differences are below zero is wrong; differences: [..., m, n].

    One difference is significantly above zero, corrected for their number, or those with one rival are so
    together. rivals: whom each of the m comparisons is with.
    """
    groups = [[i for i, name in enumerate(rivals) if name == one] for one in dict.fromkeys(rivals)]
    together = np.stack([seed_effects(differences[..., rows, :]) for rows in groups], axis=-2)
    return np.asarray(_above(differences).any(-1) | _above(together).any(-1))


def _above(differences: np.ndarray) -> np.ndarray:
    """[..., m] which of m means are significantly above zero, corrected for their number."""
    significant = holm(p_values(differences)) <= LEVEL_OF_TEST
    return np.asarray(significant & (_moments(differences)[1] > 0))


def stacked(differences: Sequence[np.ndarray]) -> np.ndarray:
    """[m, n], with NaN for the seeds that a comparison does not have."""
    n = max(map(len, differences))
    return np.stack([np.pad(x, (0, n - len(x)), constant_values=np.nan) for x in differences])


class Against(NamedTuple):
    """All comparisons with one rival: in how many settings they hold, and the effect over all of them.

    effect: the mean difference in units of the root mean square, -1 to 1, with its 95% interval and p.
    power: the effect that a test with so many seeds finds with a probability of 80%.
    """

    rival: str
    settings: int
    hold: int
    effect: float
    low: float
    high: float
    p: float
    power: float

    @classmethod
    def of(cls, rival: str, differences: Sequence[np.ndarray], hold: int) -> Against:
        """From the differences [n] of each setting."""
        seeds = seed_effects(stacked(differences))
        seeds = seeds[~np.isnan(seeds)]
        low, high = np.clip(student_interval(seeds), -1, 1)
        effect, p, power = seeds.mean(), p_values(seeds), detectable(seeds)
        return cls(
            rival, len(differences), hold, float(effect), float(low), float(high), float(p), power
        )


def detectable(differences: np.ndarray) -> float:
    """The mean difference that Student's test finds with a probability of POWER, from how these [n] vary.

    From the noncentral t distribution.
    """
    from scipy.special import nctdtrinc, stdtrit

    x = np.asarray(differences, float)
    n = len(x)
    if n < LEAST:
        return float("nan")
    least = stdtrit(n - 1, 1 - LEVEL_OF_TEST / 2)
    return float(nctdtrinc(n - 1, 1 - POWER, least)) * float(x.std(ddof=1)) / n**0.5

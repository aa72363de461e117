"""Whether a published number agrees with ours, differs, or is too noisy to tell.

The published number is a mean over seeds too. So it is compared with where a repetition of our runs, with as
many other seeds, would fall (`repetition`, `repeated_steps`):

- *agrees*: the whole range is within a margin of the published number (an equivalence test). This also holds
  for a precise number of ours that is significantly, but by less than the margin, above or below it.
- *ours is lower*, *ours is higher*: the published number is outside the range.
- *too noisy*: neither.

The margins were fixed before any number was compared with them. The range is made so that two equal
experiments differ in at most 6% of simulations: with normal and with skewed seeds (exponential), and with seeds
that fail completely or not at all; for steps, with seeds whose own steps are log-normal and vary by up to 80%.
Student's interval needs 99% for that, since skewed seeds leave its 95% interval 10% of the time, and 99.8% for
steps, which follow the slowest seed. `tools/verdict_rates.py` prints the rates. Errors with heavier tails
exceed 6%: see there.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from tpo.stats.intervals import CONFIDENCE, RESAMPLES, Interval, student_reach

AGREES, LOWER, HIGHER = "agrees", "ours is lower", "ours is higher"
NOISY = "too noisy"
POINTS, SCORE, QUARTER = 3.0, 0.03, 0.25
"""How far apart equal numbers may be: points of an error or accuracy in %, a score, a part of the steps."""
SURE = 0.99
"""The confidence at which Student's range of skewed seeds is wide enough."""
SURE_OF_STEPS = 0.998
"""The same for steps of the mean curve."""
FAILED, SUCCEEDED = 0.9, 0.1
"""A seed with an error above FAILED failed completely; SUCCEEDED: below this it learned the task."""


def splits(errors: np.ndarray) -> bool:
    """Whether some seeds failed completely and others succeeded, so that a sample may miss either kind."""
    x = np.asarray(errors, float)
    shares = (x >= 0).all() and (x <= 1).all()
    return bool(shares and (x > FAILED).any() and (x < SUCCEEDED).any())


def repetition(values: np.ndarray, split: bool = False) -> np.ndarray:
    """[2, ...] where the mean of a repetition with as many new seeds falls; values: [..., n].

    split: the values are errors of seeds that may fail completely. A sample of seeds that all succeed says
    little about those that fail, and has no spread. Then the range follows from an urn of our seeds and one
    more at the end of [0, 1]; for errors of 0 and 1 it is that of Fisher's exact test.
    """
    return _urn(values, 1 - CONFIDENCE, True) if split else _student(values, SURE, 2)


def mean_range(values: np.ndarray, split: bool = False, comparisons: int = 1) -> np.ndarray:
    """[2, ...] where the mean over all seeds is, seen from these, as `repetition`; values: [..., n].

    For errors of 0 and 1 it is the interval of Clopper and Pearson. comparisons: among how many of its kind
    it is looked at (Bonferroni).
    """
    if split:
        return _urn(values, (1 - CONFIDENCE) / comparisons, False)
    return _student(values, 1 - (1 - SURE) / comparisons, 1)


def _student(values: np.ndarray, confidence: float, samples: int) -> np.ndarray:
    x = np.asarray(values, float)
    reach = student_reach(x, confidence) * samples**0.5
    return np.stack([x.mean(-1) - reach, x.mean(-1) + reach])


def _urn(values: np.ndarray, outside: float, repeated: bool) -> np.ndarray:
    """The range of the mean in Pólya's urn, from our seeds and one more at 0, or at 1.

    Without `repeated` it is the mean of endless draws from the urn (the bound of Gaffke).
    """
    x = np.asarray(values, float)
    shares = _shares(x.shape[-1], repeated)
    ends = [
        np.quantile(_with(x, end) @ shares.T, at, axis=-1, method="inverted_cdf")
        for end, at in ((0.0, outside / 2), (1.0, 1 - outside / 2))
    ]
    return np.stack(ends)


@lru_cache(maxsize=64)
def _shares(n: int, repeated: bool) -> np.ndarray:
    """[resamples, n + 1] how often n seeds and the one more are drawn."""
    rng = np.random.default_rng(0)
    shares = rng.dirichlet(np.ones(n + 1), RESAMPLES)
    return rng.multinomial(n, shares) / n if repeated else shares


def _with(x: np.ndarray, end: float) -> np.ndarray:
    return np.concatenate([x, np.full((*x.shape[:-1], 1), end)], axis=-1)


def repeated_steps(steps: float, bootstrap: Interval, seeds: int, horizon: float) -> Interval:
    """Where the steps of the mean curve fall in a repetition; infinite for never.

    bootstrap: the 95% range of `tpo.stats.curves.rerun_steps`. A mean curve falls as late as its slowest seed,
    and no resample has a slower one. So its farther end, as a ratio, counts for both sides. It is stretched by
    Student's quantile, and since the variance of resampling n seeds twice is too small: (n - 1)/n · (2 - 1/n)
    times that of a mean, and not 2. Never counts as one step more than the horizon.
    """
    from scipy.special import ndtri, stdtrit

    if seeds < 2 or np.isnan(bootstrap.low):
        return Interval(np.nan, np.nan)
    middle, low, high = (min(x, horizon + 1) for x in (steps, *bootstrap))
    wider = stdtrit(seeds - 1, (1 + SURE_OF_STEPS) / 2) / ndtri((1 + CONFIDENCE) / 2)
    variance = 2 * seeds**2 / ((2 * seeds - 1) * (seeds - 1))
    ratio = max(middle / low, high / middle) ** float(wider * variance**0.5)
    never = np.isinf(bootstrap.high) or middle * ratio > horizon
    return Interval(
        np.inf if np.isinf(bootstrap.low) else middle / ratio, np.inf if never else middle * ratio
    )


def accepted(published: tuple[float, float], metric: str) -> tuple[float, float]:
    """What counts as equal to a published number, rounded to between these two; exact ones have no margin."""
    low, high = published
    if metric.startswith("steps"):
        return low * (1 - QUARTER), high * (1 + QUARTER)
    margin = POINTS if "%" in metric else SCORE if metric.endswith("score") else 0.0
    return low - margin, high + margin


def agreement(published: tuple[float, float], metric: str, ours: Interval) -> str:
    """The verdict on a published number, rounded to between these two, from our range."""
    least, most = accepted(published, metric)
    if least <= ours.low and ours.high <= most:
        return AGREES
    if ours.high < published[0]:
        return LOWER
    return HIGHER if ours.low > published[1] else NOISY

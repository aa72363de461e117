"""The three diagnostics of the TPO talk: gradient share, rare failure, clip bound; exact, no sampling."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tpo.arrays import Array, namespace
from tpo.groups import standardize
from tpo.objectives.target_matching import target

METHODS = ("ce", "pg", "dg", "grpo", "tpo")

RARE = (0.72, 0.144, 0.12, 0.016)
"""p_old of the talk's rare failure, derived from its four updates q - p_old and their ratio of 45."""


def odds_factor(arms: int) -> float:
    """λ = exp(A/sqrt(A - 1)): by how much TPO at eta = 1 multiplies the odds of the one success among A."""
    if arms < 2:
        raise ValueError(f"arms is {arms!r}, expected at least 2")
    return math.exp(arms / math.sqrt(arms - 1))


def population_beta(method: str, p: Array | float, arms: int) -> Array:
    r"""beta of the exact population update g = beta(p)·(e_y - pi), with one correct action among `arms`.

    .. math:: \beta_{CE} = 1,\quad \beta_{PG} = p,\quad \beta_{DG} = \frac{p}{1+p},\quad
              \beta_{GRPO} = \sqrt{\frac{p}{1-p}},\quad
              \beta_{TPO} = \frac{p(\lambda-1)}{1-p+\lambda p}

    p: the policy's probability of the correct action, any shape, or a float.
    Source: arXiv 2604.06159, section 3.
    """
    p = np.asarray(p) if isinstance(p, (int, float)) else p
    xp = namespace(p)
    if xp is None:
        raise TypeError(f"p is a {type(p).__name__}, expected a float or an array")
    if method == "ce":
        return xp.ones_like(p)
    if method == "pg":
        return p
    if method == "dg":
        return p / (1 + p)
    if method == "grpo":
        return xp.sqrt(p / (1 - p))
    if method == "tpo":
        factor = odds_factor(arms)
        return p * (factor - 1) / (1 - p + factor * p)
    raise ValueError(f"unknown method {method!r}. Valid names: {', '.join(METHODS)}")


def population_gamma(p: Array, arms: int) -> Array:
    r"""gamma in TPO's update g = gamma(pi_j)·(pi - e_j) after the wrong action j was sampled.

    .. math:: \gamma(r) = \frac{r(\lambda - 1)}{\lambda(1 - r) + r}

    p: the probability of the sampled wrong action. Source: arXiv 2604.06159, the MNIST study.
    """
    factor = odds_factor(arms)
    return p * (factor - 1) / (factor * (1 - p) + p)


class Share(NamedTuple):
    """The gradient of an easy prompt, relative to that of a hard one."""

    coefficient: float
    """the ratio of beta, as in the talk"""
    gradient: float
    """the ratio of gradient norms, beta·‖e_y - pi‖, with equal probabilities of all wrong actions"""


def gradient_share(easy: float = 0.95, hard: float = 0.05, arms: int = 10) -> dict[str, Share]:
    """Easy relative to hard, by method. At the defaults TPO's coefficient ratio is 1.7, GRPO's and PG's 19."""
    shares = {}
    for method in METHODS:
        ratio = float(population_beta(method, easy, arms) / population_beta(method, hard, arms))
        shares[method] = Share(ratio, ratio * (1 - easy) / (1 - hard))
    return shares


def rare_failure(
    p_old: Sequence[float] = RARE, rewards: Sequence[float] = (0, 1, 1, 0)
) -> np.ndarray:
    """q - p_old: TPO lowers a failure in proportion to its probability. A policy gradient does not.

    At the defaults (-.452, +.252, +.210, -.0100): the common failure is lowered 45 times as much as the rare.
    """
    p = np.asarray(p_old, dtype=float)
    u = standardize(np.asarray(rewards, dtype=float))
    return np.asarray(target(np.log(p), u) - p)


class ClipBound(NamedTuple):
    """The probability that one update on a success of probability p can reach."""

    clipped: float
    """PPO's and GRPO's clip bound, (1 + clip)·p, at most 1"""
    target: dict[int, float]
    """TPO's q for the one success among K, by K"""


def clip_bound(
    p: float = 0.01, clip: float = 0.2, group_sizes: Sequence[int] = (4, 8, 16)
) -> ClipBound:
    """The largest probability of a rare success after one update: under clipping, and as TPO's target.

    At the defaults .012 against .092, .172 and .386. Clipping allows 20% more; TPO's target has no such bound.
    """
    reach = {}
    for k in group_sizes:
        p_old = np.full(k, (1 - p) / (k - 1))
        p_old[0] = p
        u = standardize(np.eye(k)[0])
        reach[k] = float(target(np.log(p_old), u)[0])
    return ClipBound(min((1 + clip) * p, 1.0), reach)

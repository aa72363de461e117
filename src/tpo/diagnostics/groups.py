"""Diagnostics of groups: functions of log-scores, targets and scores, last axis K."""

from __future__ import annotations

from typing import NamedTuple

from tpo import checks
from tpo.arrays import Array, Namespace
from tpo.groups import constant, group_log_softmax, masked
from tpo.objectives.target_matching import probabilities


def effective_candidates(log_scores: Array, mask: Array | None = None) -> Array:
    r"""1/Σp²: the effective number of candidates under p, from 1 to K.

    .. math:: N_{eff} = 1 / \sum_i p_i^2

    log_scores: [..., K]; the result is [...], and 0 for a fully masked group. A value near 1 says
    that one candidate has nearly all the probability, as under the sum score on long completions.
    """
    xp = checks.grouped(mask, log_scores=log_scores)
    p = probabilities(xp, log_scores, mask)
    squares = xp.sum(p * p, axis=-1)
    return xp.where(squares > 0, 1 / (squares + (squares == 0)), 0.0)


def entropy(log_scores: Array, mask: Array | None = None) -> Array:
    r"""-Σ p log p of the group's distribution, in nats; [...].

    .. math:: H(p) = -\sum_i p_i \log p_i
    """
    xp = checks.grouped(mask, log_scores=log_scores)
    log_p = group_log_softmax(xp, log_scores, mask)
    return -xp.sum(masked(xp, xp.exp(log_p) * log_p, mask), axis=-1)


def kl(q: Array, log_scores: Array, mask: Array | None = None) -> Array:
    r"""KL(q‖p) of a target q from p = softmax(log_scores); [...]: 0 when the target is reached.

    .. math:: \mathrm{KL}(q\|p) = \sum_i q_i \log\frac{q_i}{p_i}

    With the rollout's log-scores it is KL(q‖p_old), the distance of the target from the old policy.
    """
    xp = checks.grouped(mask, q=q, log_scores=log_scores)
    log_p = group_log_softmax(xp, log_scores, mask)
    some = q > 0
    log_q = xp.log(xp.where(some, q, 1.0))
    return xp.sum(xp.where(some, q * (log_q - log_p), 0.0), axis=-1)


def total_variation(q: Array, log_scores: Array, mask: Array | None = None) -> Array:
    r"""Half of Σ|q - p|: the probability mass to be moved; [...].

    .. math:: TV(q, p) = \frac12\sum_i |q_i - p_i|
    """
    xp = checks.grouped(mask, q=q, log_scores=log_scores)
    return xp.sum(xp.abs(q - probabilities(xp, log_scores, mask)), axis=-1) / 2


class GroupShares(NamedTuple):
    """Shares of the groups with at least one candidate, each from 0 to 1."""

    zero_variance: Array
    """all scores equal: the group is not informative"""
    all_fail: Array
    """no score above the threshold"""
    all_pass: Array
    """every score above the threshold"""


def group_shares(scores: Array, mask: Array | None = None, threshold: float = 0.5) -> GroupShares:
    """How many groups are not informative, and why. scores: [..., K]; a success scores above `threshold`."""
    xp = checks.grouped(mask, scores=scores)
    present = _present(xp, scores, mask)
    groups = xp.cast(xp.sum(present, axis=-1) > 0, scores)
    n = xp.clip(xp.sum(groups), 1.0, None)
    wins = present * xp.cast(scores > threshold, scores)
    losses = present - wins
    alike = xp.cast(constant(xp, masked(xp, scores, mask), mask), scores)
    return GroupShares(
        zero_variance=xp.sum(groups * alike) / n,
        all_fail=xp.sum(groups * xp.cast(xp.sum(wins, axis=-1) == 0, scores)) / n,
        all_pass=xp.sum(groups * xp.cast(xp.sum(losses, axis=-1) == 0, scores)) / n,
    )


class TargetMass(NamedTuple):
    """Target probability on successes and on failures, averaged over the groups that have both."""

    winners: Array
    losers: Array


def target_mass(
    q: Array, scores: Array, mask: Array | None = None, threshold: float = 0.5
) -> TargetMass:
    """The target's mass on successes and failures in groups with both; 0 without such. q, scores: [..., K]."""
    xp = checks.grouped(mask, q=q, scores=scores)
    present = _present(xp, scores, mask)
    wins = present * xp.cast(scores > threshold, scores)
    mixed = xp.cast((xp.sum(wins, axis=-1) > 0) & (xp.sum(present - wins, axis=-1) > 0), scores)
    n = xp.clip(xp.sum(mixed), 1.0, None)
    on_winners = xp.sum(mixed * xp.sum(q * wins, axis=-1)) / n
    return TargetMass(on_winners, xp.sum(mixed * xp.sum(q * (present - wins), axis=-1)) / n)


def _present(xp: Namespace, like: Array, mask: Array | None) -> Array:
    return xp.ones_like(like) if mask is None else xp.cast(mask, like)

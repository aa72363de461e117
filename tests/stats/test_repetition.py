"""Verdicts on published numbers: where a repetition falls, and what that says."""

import numpy as np
import pytest
from scipy.stats import beta, hypergeom

from tpo.stats.intervals import Interval
from tpo.stats.repetition import (
    agreement,
    mean_range,
    repeated_steps,
    repetition,
    splits,
)


def test_a_repetition_is_students_range_of_two_means():
    # mean 2, standard deviation 1, n = 3: 9.925·sqrt(2/3) either side at 99%
    assert repetition(np.array([1.0, 2.0, 3.0])) == pytest.approx((2 - 8.104, 2 + 8.104), abs=1e-3)
    assert mean_range(np.array([1.0, 2.0, 3.0])) == pytest.approx((2 - 5.730, 2 + 5.730), abs=1e-3)


@pytest.mark.parametrize("failed", [0, 3, 20])
def test_failures_have_the_exact_range_of_clopper_and_pearson(failed):
    n = 20
    low, high = mean_range(np.r_[np.ones(failed), np.zeros(n - failed)], split=True)
    expected = beta.ppf([0.025, 0.975], [failed, failed + 1], [n - failed + 1, n - failed])
    assert (low, high) == pytest.approx(np.nan_to_num(expected, nan=failed / n), abs=0.015)


def test_a_repetition_of_failures_excludes_what_fishers_test_does():
    # with n seeds each, k failures against m: Fisher's one-sided p is a tail of the hypergeometric distribution
    n, k = 20, 2
    _, high = repetition(np.r_[np.ones(k), np.zeros(n - k)], split=True)
    p = [hypergeom.sf(m - 1, 2 * n, k + m, n) for m in range(n + 1)]
    assert round(n * high) == min(m for m in range(k, n) if p[m] <= 0.025) - 1


def test_seeds_that_all_succeed_leave_room_for_failures_only_where_others_fail():
    solved = np.zeros(10)
    assert tuple(repetition(solved)) == (0, 0)
    low, high = repetition(solved, split=True)
    assert low == 0
    assert high >= 0.4
    assert tuple(repetition(1 - solved, split=True)) == pytest.approx((1 - high, 1))


@pytest.mark.parametrize(
    ("errors", "expected"),
    [([0.0, 0.99], True), ([0.2, 0.99], False), ([0.0, 0.9], False), ([0.0, 0.99, 1.2], False)],
)
def test_seeds_split_if_some_fail_completely_and_others_succeed(errors, expected):
    assert splits(np.array(errors)) is expected


def test_steps_go_as_far_up_as_down_and_farther_for_few_seeds():
    found = repeated_steps(100, Interval(50, 110), 10, 1000)
    # the farther ratio is 2; t of 9 degrees of freedom at 99.8% is 4.297; resampling keeps .9·1.9 of a variance of 2
    ratio = 2 ** (4.29681 / 1.95996 * (2 / (0.9 * 1.9)) ** 0.5)
    assert found == pytest.approx((100 / ratio, 100 * ratio), rel=1e-4)
    assert repeated_steps(100, Interval(50, 110), 5, 1000).low < found.low


def test_steps_beyond_the_horizon_are_never():
    assert repeated_steps(100, Interval(50, 110), 10, 300).high == np.inf
    assert repeated_steps(np.inf, Interval(np.inf, np.inf), 10, 300) == (np.inf, np.inf)
    low, high = repeated_steps(np.inf, Interval(200, np.inf), 10, 300)
    assert 50 < low < 200
    assert high == np.inf
    assert np.isnan(repeated_steps(5, Interval(np.nan, np.nan), 1, 300)).all()


ERROR, STEPS = "final error %", "steps to 1%"


@pytest.mark.parametrize(
    ("published", "metric", "ours", "expected"),
    [
        ((6.85, 6.95), ERROR, (4, 9.9), "agrees"),
        ((6.85, 6.95), ERROR, (4, 9.96), "too noisy"),  # 3 points above 6.95 is 9.95
        ((6.85, 6.95), ERROR, (7, 8), "agrees"),  # above it, and all of it within the margin
        ((6.85, 6.95), ERROR, (7, 11), "ours is higher"),
        ((6.85, 6.95), ERROR, (1, 6.8), "ours is lower"),
        ((95, np.inf), ERROR, (92, 100), "agrees"),
        ((95, np.inf), ERROR, (80, 100), "too noisy"),
        ((95, np.inf), ERROR, (80, 94), "ours is lower"),
        ((57.5, 58.5), STEPS, (44, 73), "agrees"),
        ((57.5, 58.5), STEPS, (43, 73), "too noisy"),
        ((57.5, 58.5), STEPS, (59, 90), "ours is higher"),
        ((57.5, 58.5), STEPS, (40, np.inf), "too noisy"),
        ((57.5, 58.5), STEPS, (np.inf, np.inf), "ours is higher"),
        ((np.inf, np.inf), STEPS, (np.inf, np.inf), "agrees"),
        ((np.inf, np.inf), STEPS, (200, np.inf), "too noisy"),
        ((np.inf, np.inf), STEPS, (200, 300), "ours is lower"),
        ((0.325, 0.335), "beta at p = 0.1", (0.33, 0.33), "agrees"),  # exact: no margin
        ((0.325, 0.335), "beta at p = 0.1", (0.34, 0.34), "ours is higher"),
        ((0.955, 0.965), "train score", (0.94, 0.98), "agrees"),  # 0.03 are 3 points
    ],
)
def test_three_verdicts(published, metric, ours, expected):
    assert agreement(published, metric, Interval(*ours)) == expected

"""Statistics against numbers worked out by hand."""

import numpy as np
import pytest

from tpo.stats import curves as reach
from tpo.stats import intervals


def test_the_interquartile_mean_drops_a_quarter_at_either_end():
    # n = 8: two dropped at each end, the middle four are 2, 3, 4, 5
    assert intervals.iqm(np.array([100.0, 1, 3, 4, 5, 6, 2, -50])) == pytest.approx(3.5)


def test_of_three_values_nothing_is_dropped():
    # int(3/4) = 0
    assert intervals.iqm(np.array([0.0, 0.0, 3.0])) == pytest.approx(1.0)


def test_the_interquartile_mean_agrees_with_scipys_trimmed_mean():
    from scipy.stats import trim_mean

    x = np.random.default_rng(0).random((5, 17))
    np.testing.assert_allclose(intervals.iqm(x), trim_mean(x, 0.25, axis=-1))


def test_an_interval_of_equal_values_is_a_point():
    assert intervals.interval([np.full(5, 0.3)]) == pytest.approx((0.3, 0.3))


def test_one_seed_has_no_interval():
    assert np.isnan(intervals.interval([np.array([0.3])])).all()


def test_the_interval_covers_the_middle_of_the_bootstrap():
    # the mean of two values a, b redrawn twice is a, (a+b)/2 or b with chances 1/4, 1/2, 1/4,
    # so the 95% interval reaches both ends, and the 40% interval is the middle alone
    x = [np.array([0.0, 1.0])]
    assert intervals.interval(x, intervals.mean) == pytest.approx((0.0, 1.0))
    assert intervals.interval(x, intervals.mean, confidence=0.4) == pytest.approx((0.5, 0.5))


def test_strata_are_redrawn_from_themselves():
    # each stratum is constant, so any stratified resample has the same mean
    assert intervals.interval([np.zeros(4), np.ones(4)], intervals.mean) == pytest.approx(
        (0.5, 0.5)
    )


def test_the_interval_of_a_mean_is_students():
    # mean 2, standard deviation 1: 4.303/sqrt(3) either side
    assert intervals.student_interval(np.array([1.0, 2.0, 3.0])) == pytest.approx(
        (2 - 2.4843, 2 + 2.4843), abs=1e-3
    )
    assert np.isnan(intervals.student_interval(np.array([1.0]))).all()
    t = pytest.importorskip("scipy.stats").t
    for n in (2, 3, 10, 31, 32, 100):
        x = np.arange(float(n))
        reach = t.ppf(0.975, n - 1) * x.std(ddof=1) / n**0.5
        assert intervals.student_interval(x) == pytest.approx(
            (x.mean() - reach, x.mean() + reach), rel=5e-3
        )


def test_the_difference_of_two_constants():
    assert intervals.difference(np.full(3, 0.2), np.full(4, 0.5)) == pytest.approx((-0.3, -0.3))


def test_the_difference_is_taken_seed_by_seed():
    hard = np.array([0.1, 0.5, 0.9])
    assert intervals.difference(hard + 0.01, hard) == pytest.approx((0.01, 0.01))


def test_a_repetition_weighs_every_seed_alike_and_spreads_by_both_draws():
    weights = intervals.rerun_weights(10)
    assert weights.sum(1) == pytest.approx(np.ones(len(weights)))
    # one draw of n values has a variance of v/n, a draw from a draw v/n·(1 + (1 - 1/n)): 1.9 v/n
    x = np.arange(10.0)
    assert (weights @ x).var() == pytest.approx(1.9 * x.var() / 10, rel=0.1)


def test_a_repetition_of_the_steps_may_never_arrive():
    # the mean of a seed at 0 and one at 1 is below .6 from the second point on unless only the latter
    # is drawn: probability 1/4 + 1/2·1/4 = 3/8
    curves = np.array([[1.0, 0.0, 0.0], [1.0, 1.0, 1.0]])
    x = np.array([10, 20, 30])
    assert reach.rerun_steps(x, curves, 0.6) == (20, np.inf)
    assert reach.rerun_steps(x, curves[[0, 0]], 0.6) == (20, 20)


def test_the_standard_error():
    # values 1, 3: variance with n - 1 is 2, sqrt(2)/sqrt(2) = 1
    assert intervals.standard_error(np.array([[1.0], [3.0]])) == pytest.approx(1.0)
    assert intervals.standard_error(np.array([[1.0, 2.0]])).tolist() == [0.0, 0.0]


def test_solved_counts_what_is_below():
    assert reach.solved(np.array([0.009, 0.01, 0.0, 0.5])) == 2


def test_steps_to_a_threshold():
    x = np.array([200, 400, 600])
    assert reach.steps_to(x, np.array([0.5, 0.009, 0.02])) == 400
    assert reach.steps_to(x, np.array([0.5, 0.5, 0.01])) is None


def test_a_seed_that_never_gets_there_counts_one_more_than_the_budget():
    curves = np.array([[0.5, 0.001, 0.5], [0.5, 0.5, 0.5]])
    assert reach.seed_steps(np.arange(1, 4), curves).tolist() == [2, 4]


def test_the_median_seed_is_known_if_more_than_half_get_there():
    never = np.inf
    of = reach.MedianSteps.of
    # six seeds: by chance all are on one side of the median 1 time in 32, so the interval is all of them
    assert of(np.array([30, 10, 20, 40, never, never])) == (35, (10, never), 4)
    assert of(np.array([30, 10, 20, never, never, never]))[::2] == (never, 3)
    # twenty: P(at most 5 of 20) = .0207, P(at most 6) = .058: from the 6th to the 15th
    assert of(np.arange(1.0, 21)).interval == (6, 15)
    few = of(np.array([1.0, 2.0, 3.0, 4.0, 5.0]))
    assert few.value == 3
    assert np.isnan(few.interval).all()


def test_the_end_is_a_tenth_but_at_most_a_hundred_points():
    assert [reach.tail_length(n) for n in (5, 40, 900, 2000)] == [1, 4, 90, 100]
    curve = np.r_[np.ones(36), np.arange(4.0)][None]
    assert reach.tail(curve) == pytest.approx([1.5])


def test_a_performance_profile_weighs_settings_equally():
    # at tau = .1: one of two runs of the first setting, all four of the second: (1/2 + 1)/2
    share = reach.performance_profile([np.array([0.0, 0.9]), np.zeros(4)], np.array([0.1, 1.0]))
    assert share.tolist() == [0.75, 1.0]


def test_a_threshold_is_reached_on_the_line_between_two_points():
    # from .2 at 100 to .6 at 300, .3 is a quarter of the way
    x, curve = np.array([0, 100, 300, 400]), np.array([0.1, 0.2, 0.6, 0.1])
    assert reach.first_reach(x, curve, 0.3) == pytest.approx(150)
    assert reach.first_reach(x, curve, 0.6) == pytest.approx(300)
    assert reach.first_reach(x, curve, 0.1) == 0
    assert reach.first_reach(x, curve, 0.7) is None

"""Tests of differences: p values, their correction for many, all comparisons together, power."""

import numpy as np
import pytest
from scipy import stats

from tpo.stats.significance import Against, detectable, holm, p_values, refuted, seed_effects


def test_p_is_students_and_a_missing_seed_does_not_count():
    x = np.random.default_rng(0).normal(0.5, 1, (4, 9))
    np.testing.assert_allclose(p_values(x), stats.ttest_1samp(x, 0, axis=-1).pvalue)
    with_gaps = np.concatenate([x, np.full((4, 2), np.nan)], axis=1)
    np.testing.assert_allclose(p_values(with_gaps), p_values(x))


def test_p_of_few_seeds_of_one_sign_and_of_no_spread():
    outlier = np.array([0.01, 0.02, 0.01, 0.02, 0.01, 5.0])
    assert stats.ttest_1samp(outlier, 0).pvalue > 0.3
    assert p_values(outlier) == 2 / 2**6
    assert p_values(outlier[1:]) > 0.3  # five of one sign are not six
    # two equal methods, each seed at 0 or 1 with one half: all three differences are 1, or all -1, 2 times in 64
    assert p_values(np.ones(3)) == 2 / 64
    assert p_values(np.zeros(5)) == p_values(np.ones(2)) == 1


def test_holm_by_hand():
    # sorted .01, .02, .03, .5, times 4, 3, 2, 1: .04, .06, .06, .5 after the running maximum
    np.testing.assert_allclose(holm(np.array([0.03, 0.5, 0.01, 0.02])), [0.06, 0.5, 0.04, 0.06])
    np.testing.assert_allclose(holm(np.array([[0.9, 0.6]])), [[1, 1]])


def test_a_seed_counts_once_however_many_comparisons_share_its_runs():
    x = np.random.default_rng(1).normal(0.3, 1, (3, 8))
    np.testing.assert_allclose(seed_effects(np.concatenate([x, x, x])), seed_effects(x))
    # root mean squares 1 and 10: (1 + 1)/2, (-1 + 1)/2
    np.testing.assert_allclose(seed_effects(np.array([[1.0, -1.0], [10.0, 10.0]])), [1, 0])
    np.testing.assert_allclose(seed_effects(np.array([[1.0, np.nan], [10.0, 10.0]])), [1, 1])


def test_many_small_differences_are_significant_together():
    x = np.random.default_rng(0).normal(-0.3, 1, (32, 10))
    assert (holm(p_values(x)) > 0.05).all()
    found = Against.of("a", list(x), hold=0)
    assert found.p < 0.005
    assert -0.5 < found.low < found.effect < found.high < -0.1
    assert refuted(-x, ["a"] * 32)
    assert not refuted(x, ["a"] * 32)


def test_one_comparison_of_32_refutes_only_if_it_is_clear():
    rng = np.random.default_rng(3)
    x = rng.normal(-1, 1, (32, 10))
    rivals = [f"rival {i}" for i in range(32)]
    x[5] += 1 - x[5].mean()
    assert 0.005 < p_values(x[5]) < 0.05
    assert not refuted(x, rivals)
    x[5] += 1.5
    assert refuted(x, rivals)


@pytest.mark.parametrize("n", [5, 20])
def test_a_detectable_difference_is_found_8_times_in_10(n):
    rng = np.random.default_rng(4)
    x = rng.normal(0, 1, (4000, n))
    enough = detectable(x[0] / x[0].std(ddof=1))
    assert (p_values(x + enough) <= 0.05).mean() == pytest.approx(0.8, abs=0.02)
    assert np.isnan(detectable(np.ones(2)))

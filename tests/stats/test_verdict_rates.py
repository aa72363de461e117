"""Without a difference at most 6% of verdicts are wrong, and the printed simulation is what is tested."""

import importlib.util

import pytest

from support import ROOT

SPEC = importlib.util.spec_from_file_location("verdict_rates", ROOT / "tools/verdict_rates.py")
assert SPEC is not None
rates = importlib.util.module_from_spec(SPEC)
assert SPEC.loader is not None
SPEC.loader.exec_module(rates)
REPEATS = 2000
MOST = 0.06


@pytest.mark.parametrize("n", rates.SEEDS)
@pytest.mark.parametrize("kind", rates.PROMISED)
def test_two_equal_methods_or_experiments_differ_at_most_6_times_in_100(kind, n):
    assert rates.single(n, REPEATS, kind) <= MOST
    assert rates.claims(n, REPEATS, kind) <= MOST
    assert rates.together(n, REPEATS, kind) <= MOST
    assert rates.published(n, REPEATS, kind) <= MOST
    assert rates.fixed(n, REPEATS, kind) <= MOST


def test_uncorrected_comparisons_refute_more_than_half_of_true_claims():
    assert rates.uncorrected(10, REPEATS, "normal") > 0.5


@pytest.mark.parametrize("spread", rates.SPREADS[-1:])
def test_steps_of_an_equal_experiment_differ_at_most_6_times_in_100(spread):
    """Of 20 seeds that vary most, where they differ most often."""
    assert rates.steps(20, REPEATS, spread) <= MOST


def test_three_points_apart_is_not_called_equal_and_equal_often_is():
    assert rates.agrees(20, REPEATS, spread=1.0, apart=rates.POINTS) <= MOST
    assert rates.agrees(20, REPEATS, spread=1.0) > 0.95

"""Typical seeds and complete failures."""

import numpy as np
import pytest
from scipy.stats import fisher_exact

from tpo.stats.failures import Ends, typical_and_failed

TPO = Ends("TPO", "H = 7", "a", np.array([0.0, 0.02, 0.0, 0.02, 0.95]))
GRPO = Ends("GRPO", "H = 7", "b", np.array([0.0, 0.0, 0.0, 1.0, 1.0]))
PPO = Ends("PPO", "H = 7", "c", np.ones(5))


def test_failures_solved_seeds_and_medians_are_side_by_side():
    first, grpo, ppo = typical_and_failed([GRPO, TPO, PPO], "TPO", 0.01)
    assert first == {
        "method": "TPO", "runs": 5, "failed": 1, "p": None, "solved": 2, "lower": None,
    }  # fmt: skip
    assert (grpo["failed"], grpo["solved"], grpo["lower"]) == (2, 3, "1 of 1")
    # of two tests the smaller p counts twice, and no p is below an earlier one
    smaller = 2 * fisher_exact([[5, 0], [1, 4]]).pvalue
    assert ppo["p"] == pytest.approx(smaller)
    assert grpo["p"] == fisher_exact([[2, 3], [1, 4]]).pvalue


def test_a_run_that_two_settings_share_counts_once():
    again = [end._replace(setting="matched") for end in (TPO, GRPO)]
    twice = typical_and_failed([TPO, GRPO, *again], "TPO", 0.01)
    assert twice == typical_and_failed([TPO, GRPO], "TPO", 0.01)
    other = GRPO._replace(setting="matched", key="other")
    assert typical_and_failed([TPO, GRPO, again[0], other], "TPO", 0.01)[1]["runs"] == 10


def test_without_complete_failures_or_rivals_there_is_no_table():
    assert typical_and_failed([TPO, GRPO._replace(method="TPO")], "TPO", 0.01) == []
    fine = [end._replace(errors=end.errors * 0.5) for end in (TPO, GRPO)]
    assert typical_and_failed(fine, "TPO", 0.01) == []

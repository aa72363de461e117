"""Thresholds: reached from below counts where it is just met, an error must be below its threshold."""

import numpy as np
import pytest

from tpo.stats.curves import first_reach, goal, performance_profile, solved, steps_to
from tpo.stats.verdicts import MethodResult, compare

X = np.array([100, 200, 300])


def test_a_goal_that_is_just_met_at_the_end_is_reached() -> None:
    assert first_reach(X, np.array([0.1, 0.2, 0.5]), 0.5) == 300
    assert first_reach(X, np.array([0.5, 0.2, 0.1]), 0.5) == 100
    assert first_reach(X, np.array([0.1, 0.2, 0.5]), np.nextafter(0.5, 1)) is None


@pytest.mark.parametrize("share", [0.25, 0.5, 0.9, 1.0])
def test_every_curve_reaches_the_goal_that_is_made_from_it(share: float) -> None:
    curve = np.array([0.1, 0.3, 0.7])
    wanted = goal(curve, share)
    assert wanted == pytest.approx(0.1 + share * 0.6)
    assert wanted is not None
    assert first_reach(X, curve, wanted) is not None
    assert goal(curve[::-1], share) is None
    assert goal(np.array([0.3, 0.9, 0.3]), share) is None


def test_an_error_at_its_threshold_is_neither_solved_nor_below() -> None:
    errors = np.array([0.02, 0.01, np.nextafter(0.01, 0)])
    assert solved(errors) == 1
    assert steps_to(X, errors) == 300
    assert steps_to(X, errors[:2]) is None


def test_a_profile_counts_an_error_of_exactly_tau() -> None:
    found = performance_profile([np.array([0.1, 0.3])], np.array([0.1, 0.2, 0.3]))
    assert found.tolist() == [0.5, 0.5, 1.0]


@pytest.mark.parametrize("side", [-1, 1])
def test_level_means_within_a_twentieth_on_both_sides(side: int) -> None:
    # differences -.02 ± .0218 over four seeds: Student's interval is -.06 to .02, a twentieth of .5 is .025
    there = 0.5 + side * np.array([0.0018, -0.0418, 0.0018, -0.0418])
    sides = [
        MethodResult({}, name, name, True, lambda _, x=x: x)
        for name, x in (("tpo", there), ("grpo", np.full(4, 0.5)))
    ]
    ruling = compare(sides[0], sides[1], "end")
    assert ruling.status == "undecided"
    assert "within the noise" in ruling.words

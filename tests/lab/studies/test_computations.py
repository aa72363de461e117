"""The mechanism's closed forms against the library's own target and against numbers by hand."""

import numpy as np
import pytest

import tpo
from tpo.lab.studies.computations import (
    WEIGHTS,
    concentration,
    first_order_gain,
    simplex_updates,
    symmetric_beta,
    symmetric_gain,
    symmetric_policy,
)

PI = np.array([[0.1, 0.81, *[0.09 / 8] * 8], [0.3, 0.2, *[0.5 / 8] * 8]])
Y = np.array([0, 0])


def test_concentration_and_the_symmetric_policy():
    # wrong mass .9 of which .81 on one class; .7 of which .2
    assert concentration(PI, Y) == pytest.approx([0.9, 2 / 7])
    even = symmetric_policy(PI, Y)
    assert even[0] == pytest.approx([0.1] * 10)
    assert even.sum(-1) == pytest.approx([1, 1])


def test_the_gain_of_the_policy_gradient():
    # E[g] = p(e_y - pi), so the gain is p²·|e_y - pi|²; the baseline drops out
    p = PI[:, 0]
    square = (1 - p) ** 2 + (PI[:, 1:] ** 2).sum(-1)
    assert first_order_gain("pg", PI, Y) == pytest.approx(p**2 * square)


def test_group_pg_has_six_times_the_gain_of_pg_with_ten_actions():
    # u = ±3, and Σ_a pi_a u_a (e_a - pi) = 6·p_y(e_y - pi)
    assert first_order_gain("group_pg", PI, Y) == pytest.approx(6 * first_order_gain("pg", PI, Y))


@pytest.mark.parametrize("action", [0, 1, 5])
def test_tpos_weight_is_the_step_to_its_target(action):
    pi, correct = PI[:1], np.eye(10)[:1]
    advantage = correct[0, action] - (pi**2).sum()
    scores = advantage * np.eye(10)[action]
    q = tpo.target(np.log(pi[0]), tpo.standardize(scores))
    weight = WEIGHTS["tpo"](pi, correct)[0, action]
    assert q - pi[0] == pytest.approx(weight * (np.eye(10)[action] - pi[0]))


def test_dgs_weight_is_the_objectives_own_coefficient():
    pi, correct = PI[:1], np.eye(10)[:1]
    for action in (0, 1):
        group = tpo.Groups(
            log_probs_old=np.log(pi[:, [action]])[..., None],
            scores=correct[:, [action]],
            baseline=(pi**2).sum(-1),
        )
        objective = tpo.objective("dg", advantage="given")
        c = objective.coefficients(group.log_probs_old, objective.prepare(group)).item()
        assert WEIGHTS["dg"](pi, correct)[0, action] == pytest.approx(-c)


def surplus(method):
    return first_order_gain(method, PI, Y) - symmetric_gain(method, PI, Y)


def test_the_coefficient_of_the_symmetric_surrogate():
    # PG p, Group PG 6p with ten actions; where all wrong classes are alike the surrogate is the update itself
    assert symmetric_beta("pg", PI, Y) == pytest.approx([0.1, 0.3])
    assert symmetric_beta("group_pg", PI, Y) == pytest.approx([0.6, 1.8])
    even = symmetric_policy(PI, Y)
    for method in WEIGHTS:
        assert first_order_gain(method, even, Y) == pytest.approx(symmetric_gain(method, even, Y))


def test_the_surplus_over_the_surrogate_at_the_same_policy():
    # by hand for the first row, where pi = .1, .81, 8 times .01125 and ‖e_y - pi‖² = .81 + .6561 + .0010125:
    # TPO's gain is dominated by gamma(.81)·.81·.1·((e_y - pi)·(pi - e_1)); PG and Group PG are their surrogates
    assert surplus("pg") == pytest.approx([0, 0], abs=1e-15)
    assert surplus("group_pg") == pytest.approx([0, 0], abs=1e-15)
    assert (surplus("dg") < 0).all()
    gained = surplus("tpo")
    assert gained[0] == pytest.approx(0.0686, abs=5e-4)
    assert gained[0] > 10 * gained[1] > 0


def test_arrows_on_the_simplex_go_from_points_to_points_and_raise_the_right_one():
    found = simplex_updates()
    for name in ("simplex_target", "simplex_tpo", "simplex_grpo"):
        assert found[name].sum(-1) == pytest.approx(np.ones(len(found[name])))
        assert (found[name][:, 0] > found["simplex_from"][:, 0]).all()
    # K = 3, one success: u = (sqrt 2, -1/sqrt 2, ..), so the odds grow by exp(3/sqrt 2)
    p, q = found["simplex_from"][0], found["simplex_target"][0]
    assert (q[0] / q[1]) / (p[0] / p[1]) == pytest.approx(np.exp(3 / np.sqrt(2)))

"""Baselines of least variance, worked out by hand and held against the exact optimum."""

import numpy as np
import pytest

import tpo
from support.libraries import LIBRARIES, run
from tpo.objectives.baselines import score_norms

THREE = {
    "log_probs_old": np.log([[[0.5, 0.8], [0.2, 0.5], [0.9, 0.5]]]),
    "scores": np.array([[1.0, 0.0, 0.25]]),
    "mask": np.array([[[True, False], [True, True], [True, True]]]),
}
"""Three candidates of 1, 2 and 2 tokens; 1 - pi is .5 | .8, .5 | .1, .5."""


def pushes(library: str, name: str, **options: str) -> np.ndarray:
    """[K, T] R - b at the snapshot."""
    objective = tpo.objective(name, **options)
    _, c, _ = run(library, objective, THREE, THREE["log_probs_old"])
    return -3 * c[0]


@pytest.mark.parametrize("library", LIBRARIES)
def test_opo_weighs_scores_by_length(library: str) -> None:
    # b = (1·1 + 2·0 + 2·.25)/5 = .3
    found = pushes(library, "opo")
    np.testing.assert_allclose(found, [[0.7, 0], [-0.3, -0.3], [-0.05, -0.05]], atol=1e-12)


@pytest.mark.parametrize("library", LIBRARIES)
def test_opo_weighs_scores_by_the_norm_of_the_score_function(library: str) -> None:
    # Σ(1 - pi) = .5, 1.3, .6, so b = (.5 + .15)/2.4 = .2708333
    found = pushes(library, "opo", weights="score_norm")
    np.testing.assert_allclose(found[:, 0], np.array([1.0, 0.0, 0.25]) - 0.65 / 2.4, atol=1e-12)


@pytest.mark.parametrize("library", LIBRARIES)
def test_otb_weighs_by_the_tokens_so_far(library: str) -> None:
    # First token: W = .5, .8, .1, b = (.5 + .025)/1.4 = .375. Second: candidates 2 and 3 with W = 1.3, .6, b = .15/1.9.
    found = pushes(library, "otb")
    b = [0.525 / 1.4, 0.15 / 1.9]
    expected = [[1 - b[0], 0], [-b[0], -b[1]], [0.25 - b[0], 0.25 - b[1]]]
    np.testing.assert_allclose(found, expected, atol=1e-12)


def test_norms_of_the_score_function_are_exact_with_the_sum_over_the_vocabulary() -> None:
    """And right on average without it: E[1 - pi] = 1 - Σ pi² = E‖∇ log pi‖²."""
    p = np.array([0.5, 0.3, 0.15, 0.05])
    exact = ((np.eye(4) - p) ** 2).sum(-1)
    group = {"log_probs_old": np.log(p)[None, :, None], "scores": np.zeros((1, 4))}
    squares = np.full((1, 4, 1), (p**2).sum())
    with_sum = score_norms(tpo.Groups(**group, sum_pi_squared=squares))
    np.testing.assert_allclose(with_sum[0, :, 0], exact, rtol=1e-12)
    estimated = score_norms(tpo.Groups(**group))[0, :, 0]
    np.testing.assert_allclose((p * estimated).sum(), (p * exact).sum(), rtol=1e-12)
    assert not np.allclose(estimated, exact)


def test_opos_baseline_is_the_optimal_one() -> None:
    """With many samples of one token b is b* of the exact distribution, .2911 where the mean reward is .22."""
    p, reward = np.array([0.6, 0.3, 0.1]), np.array([0.2, 0.0, 1.0])
    best = tpo.objectives.optimal_baseline(reward, ((np.eye(3) - p) ** 2).sum(-1), weights=p)
    actions = np.random.default_rng(0).choice(3, size=400_000, p=p)
    group = {
        "log_probs_old": np.log(p[actions])[None, :, None],
        "scores": reward[actions][None],
        "sum_pi_squared": np.full((1, 400_000, 1), (p**2).sum()),
    }
    objective = tpo.objective("opo", weights="score_norm")
    _, c, _ = run("numpy", objective, group, group["log_probs_old"])
    found = reward[actions] + 400_000 * c[0, :, 0]
    np.testing.assert_allclose(found, found[0], atol=1e-9)
    np.testing.assert_allclose(found[0], best, rtol=0.01)
    assert abs(best - 0.22) > 0.07

"""A weight per group makes TPO's gradient at the snapshot that of accuracy or pass@k, and moves no target."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tpo
from support.libraries import LIBRARIES, example, run

few = settings(max_examples=20)
binary = st.lists(st.booleans(), min_size=2, max_size=9).filter(lambda one: 0 < sum(one) < len(one))


def slope(scores: list[float], eta: float = 1.0, weight: str = "target") -> np.ndarray:
    """-dL/d log-prob of one group of one-token candidates at the snapshot, with ratio scores."""
    group = tpo.Groups(np.zeros((1, len(scores), 1)), np.array([scores], float))
    objective = tpo.objective("tpo", score="ratio", eta=eta, weight=weight)
    return -objective.coefficients(group.log_probs_old, objective.prepare(group))[0, :, 0]


def towards_success(scores: list[bool]) -> np.ndarray:
    """Mean over successes minus mean over failures, as weights of the candidates."""
    won = np.array(scores, float)
    return won / won.sum() - (1 - won) / (1 - won).sum()


@few
@given(binary, st.floats(0.3, 3), st.integers(1, 64))
def test_the_gradient_is_that_of_pass_at_k(scores: list[bool], eta: float, k: int) -> None:
    # d/dP [1 - (1 - P)^k] = k (1 - P)^(k-1), and dP = p(1 - p)·(mean over successes - mean over failures)
    p = np.mean(scores)
    wanted = k * p * (1 - p) ** k * towards_success(scores)
    np.testing.assert_allclose(slope(scores, eta, f"pass@{k}"), wanted, rtol=1e-9)


@few
@given(binary, st.floats(0.3, 3))
def test_accuracy_is_pass_at_1_and_reinforce(scores: list[bool], eta: float) -> None:
    found = slope(scores, eta, "accuracy")
    np.testing.assert_array_equal(found, slope(scores, eta, "pass@1"))
    won = np.array(scores, float)
    np.testing.assert_allclose(found, (won - won.mean()) / len(won), rtol=1e-9)


def test_as_published_it_is_nearly_the_log_likelihood_of_a_success() -> None:
    # one success of eight: u = √7 and -1/√7, λ = e^(8/√7) = 20.57, Q = λ/(λ + 7) = .7461, Q - p = .6211
    scores = [True] + [False] * 7
    odds = np.exp(8 / np.sqrt(7))
    wanted = (odds / (odds + 7) - 1 / 8) * towards_success(scores)
    np.testing.assert_allclose(slope(scores), wanted, rtol=1e-12)


def test_by_hand() -> None:
    # Ratio scores, two groups of two. First: p_old = ½, q = softmax(1, -1) = .8808, .1192, moved .3808; pass@2:
    # w = 2·½·¼/.3808 = .65653. Second: no variance, so w = 1. The gradient at the snapshot: w(½ - q)/2 and 0.
    fields = {
        "log_probs_old": np.full((2, 2, 1), -1.0),
        "scores": np.array([[1.0, 0.0], [3.0, 3.0]]),
    }
    objective = tpo.objective("tpo", score="ratio", weight="pass@2")
    for library in LIBRARIES:
        _, c, gradient = run(library, objective, fields, fields["log_probs_old"])
        np.testing.assert_allclose(
            c[..., 0], [[-0.125, 0.125], [0, 0]], atol=1e-12, err_msg=library
        )
        if gradient is not None:
            np.testing.assert_allclose(gradient, c, atol=1e-12, err_msg=library)


@pytest.mark.parametrize("ties", ["anchored", "pooled"])
@pytest.mark.parametrize("score", ["sum", "mean", "ratio", "mean_ratio"])
def test_a_weight_scales_whole_groups_and_their_loss(score: str, ties: str) -> None:
    """So the fixed point stays, away from the snapshot too; libraries and autodiff agree."""
    fields, new = example(7, B=3, K=4, T=3, masks=True)
    plain = tpo.objective("tpo", score=score, ties=ties)
    weighted = tpo.objective("tpo", score=score, ties=ties, weight="pass@4")
    _, c, _ = run("numpy", plain, fields, new)
    _, weighed, _ = run("numpy", weighted, fields, new)
    moved = np.abs(c) > 1e-12
    assert moved.any(axis=(1, 2)).sum() >= 2
    for b in np.flatnonzero(moved.any(axis=(1, 2))):
        factors = weighed[b][moved[b]] / c[b][moved[b]]
        assert np.ptp(factors) < 1e-9 * factors.max()
    for library in LIBRARIES:
        _, other, gradient = run(library, weighted, fields, new)
        np.testing.assert_allclose(other, weighed, atol=1e-12, err_msg=library)
        if gradient is not None:
            np.testing.assert_allclose(gradient, weighed, atol=1e-12, err_msg=library)


def test_with_summed_scores_the_success_rate_is_that_of_p_old() -> None:
    # p_old = (.2, .8): the success has .2, so accuracy's factor is .16 whatever the target.
    old = np.log([[[0.2], [0.8]]])
    group = tpo.Groups(old, np.array([[1.0, 0.0]]))
    for eta in (0.5, 2.0):
        objective = tpo.objective("tpo", eta=eta, weight="accuracy")
        c = objective.coefficients(old, objective.prepare(group))
        np.testing.assert_allclose(-c[0, :, 0], [0.16, -0.16], rtol=1e-9)


@pytest.mark.parametrize("wrong", ["pass@0", "pass@", "pass@1.5", "pass@-1", "passed", "", 8, None])
def test_a_wrong_weight_is_named(wrong: object) -> None:
    with pytest.raises(ValueError, match="weight is .*'target', 'accuracy' or 'pass@k'.*'gate'"):
        tpo.objective("tpo", weight=wrong)

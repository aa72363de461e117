"""What the course in docs/learn states as laws of ratios, KL estimators and normalisers; exact, by enumeration."""

from itertools import product
from math import comb
from typing import Any

import numpy as np
import pytest

import tpo
from tpo.objectives import k1, k2, k3

RNG = np.random.default_rng(0)
ARMS = 6
LOGITS, SHIFT = RNG.normal(size=(2, ARMS))


def softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def slope(f: Any, x: np.ndarray, step: float = 1e-6) -> np.ndarray:
    """df/dx by central differences."""
    shifts = step * np.eye(len(x))
    return np.array([(f(x + e) - f(x - e)) / (2 * step) for e in shifts])


def kl(p: np.ndarray, q: np.ndarray) -> float:
    return float(p @ np.log(p / q))


POLICY, REFERENCE = softmax(LOGITS), softmax(LOGITS + SHIFT)
SCORES = np.eye(ARMS) - POLICY
"""[arm, logit] ∇ log pi of each arm"""


@pytest.mark.parametrize(
    ("advantage", "ratio", "loss", "by_ratio"),
    [
        (10.0, 0.5, -5.0, -10.0),  # min(5, 8) = 5: unclipped
        (10.0, 1.5, -12.0, 0.0),  # min(15, 12) = 12: clipped
        (-10.0, 0.5, 8.0, 0.0),  # min(-5, -8) = -8: clipped
        (-10.0, 1.5, 15.0, 10.0),  # min(-15, -12) = -15: unclipped
    ],
)
def test_four_cases_of_the_clip(
    advantage: float, ratio: float, loss: float, by_ratio: float
) -> None:
    objective = tpo.objective("ppo", advantage="score")
    snapshot = np.zeros((1, 1, 1))
    prepared = objective.prepare(tpo.Groups(log_probs_old=snapshot, scores=np.array([[advantage]])))
    log_ratio = snapshot + np.log(ratio)
    np.testing.assert_allclose(objective.loss(log_ratio, prepared), loss)
    np.testing.assert_allclose(objective.coefficients(log_ratio, prepared), by_ratio * ratio)


def test_natural_gradient_of_a_softmax_is_its_advantage() -> None:
    rewards = RNG.normal(size=ARMS)
    advantages = rewards - POLICY @ rewards
    fisher = np.einsum("a,ai,aj->ij", POLICY, SCORES, SCORES)
    gradient = slope(lambda x: softmax(x) @ rewards, LOGITS)
    np.testing.assert_allclose(fisher @ advantages, gradient, atol=1e-8)


@pytest.mark.parametrize("scale", [0.01, 0.5, 3.0])
def test_k1_and_k3_have_the_kl_as_mean_and_k3_is_never_negative(scale: float) -> None:
    reference = softmax(LOGITS + scale * SHIFT)
    logs = np.log(POLICY), np.log(reference)
    for estimator in (k1, k3):
        np.testing.assert_allclose(POLICY @ estimator(*logs), kl(POLICY, reference), atol=1e-12)
    assert (k3(*logs) >= 0).all()
    assert (k2(*logs) >= 0).all()
    assert abs(POLICY @ k2(*logs) - kl(POLICY, reference)) > 1e-9  # biased
    assert (k1(*logs) < 0).any()


def test_mean_gradients_of_the_kl_estimators() -> None:
    """k1: 0; k2: KL(pi‖ref); k3: KL(ref‖pi)."""

    def mean_gradient(estimator: Any) -> np.ndarray:
        sampled = lambda x: estimator(np.log(softmax(x)), np.log(REFERENCE))  # noqa: E731
        return POLICY @ slope(sampled, LOGITS).T

    np.testing.assert_allclose(mean_gradient(k1), 0, atol=1e-8)
    forward = slope(lambda x: kl(softmax(x), REFERENCE), LOGITS)
    np.testing.assert_allclose(mean_gradient(k2), forward, atol=1e-8)
    reverse = slope(lambda x: kl(REFERENCE, softmax(x)), LOGITS)
    np.testing.assert_allclose(mean_gradient(k3), reverse, atol=1e-8)
    assert np.abs(forward - reverse).max() > 0.01


def test_kl_inside_the_reward_is_the_gradient_of_the_regularised_objective() -> None:
    rewards, beta = RNG.normal(size=ARMS), 0.3
    log_policy = np.log(POLICY)[:, None, None]
    inside = rewards - beta * k1(np.log(POLICY), np.log(REFERENCE))
    reinforce = tpo.objective("reinforce", advantage="score")
    prepared = reinforce.prepare(tpo.Groups(log_probs_old=log_policy, scores=inside[:, None]))
    mean = POLICY @ (-ARMS * reinforce.coefficients(log_policy, prepared)[:, 0] * SCORES)
    expected = slope(lambda x: softmax(x) @ rewards - beta * kl(softmax(x), REFERENCE), LOGITS)
    np.testing.assert_allclose(mean, expected, atol=1e-8)


def weight_of_a_prompt(name: str, K: int, p: float, **options: Any) -> float:
    """The weight on ∇p of the mean update from groups of K scores of 0 and 1, enumerated over the successes k."""
    objective = tpo.objective(name, **options)
    found = 0.0
    for k in range(K + 1):
        right = np.arange(K) < k
        groups = tpo.Groups(log_probs_old=np.zeros((1, K, 1)), scores=right.astype(float)[None])
        c = objective.coefficients(groups.log_probs_old, objective.prepare(groups))[0, :, 0]
        chance = comb(K, k) * p**k * (1 - p) ** (K - k)
        found -= chance * float(c @ np.where(right, 1 / p, -1 / (1 - p)))
    return found


@pytest.mark.parametrize("K", [2, 4, 7])
@pytest.mark.parametrize("p", [1e-7, 0.2, 0.9])
def test_weight_of_a_prompt_under_grpo(K: int, p: float) -> None:
    """E[sqrt(k(K - k))]/(K p(1 - p)); sqrt(K - 1) as p goes to 0."""
    k = np.arange(K + 1)
    chance = np.array([comb(K, j) for j in k]) * p**k * (1 - p) ** (K - k)
    found = weight_of_a_prompt("grpo", K, p, beta=0.0)
    np.testing.assert_allclose(found, chance @ np.sqrt(k * (K - k)) / K / (p * (1 - p)))
    if p < 1e-6:
        np.testing.assert_allclose(found, np.sqrt(K - 1), rtol=1e-5)


@pytest.mark.parametrize("K", [2, 4, 7])
@pytest.mark.parametrize("p", [1e-7, 0.2, 0.9])
def test_weight_of_a_prompt_under_maxrl(K: int, p: float) -> None:
    """(1 - (1 - p)^(K - 1))/p, up to the 1e-6 that MaxRL adds to the mean; K - 1 as p goes to 0."""
    expected = (1 - (1 - p) ** (K - 1)) / p
    np.testing.assert_allclose(weight_of_a_prompt("maxrl", K, p), expected, rtol=2e-5)


def stop_gradient(name: str, stop: float = 0.3, longest: int = 5, **options: Any) -> np.ndarray:
    """[2] the mean step up of the stop logits of a wrong and a right answer, over all pairs of lengths.

    After each token the policy stops with probability `stop`; at the longest length the answer ends anyway.
    """
    objective = tpo.objective(name, **options)
    at = np.arange(longest)
    mean = np.zeros(2)
    for lengths in product(range(1, longest + 1), repeat=2):
        n = np.array(lengths)[:, None]
        last = (at == n - 1) & (at < longest - 1)
        free = at < np.minimum(
            n, longest - 1
        )  # the token at the limit is forced: no choice, no gradient
        log_probs = np.where(free, np.log(np.where(last, stop, 1 - stop)), 0.0)[None]
        groups = tpo.Groups(
            log_probs_old=log_probs, scores=np.array([[0.0, 1.0]]), mask=(at < n)[None]
        )
        c = objective.coefficients(log_probs, objective.prepare(groups))[0]
        step = -(c * np.where(free, last - stop, 0.0)).sum(-1)
        mean += np.exp(log_probs.sum()) * step
    return mean


def mean_inverse_length(stop: float, longest: int = 5) -> float:
    chances = [stop * (1 - stop) ** (n - 1) for n in range(1, longest)]
    chances.append(1 - sum(chances))
    return sum(chance / n for n, chance in enumerate(chances, start=1))


def test_own_length_climbs_advantage_per_token_and_a_constant_does_not() -> None:
    """The reward ignores the length. GRPO's step is d E[u/|o|]/d logit: wrong answers longer, right shorter."""
    stop = 0.3
    by_logit = stop * (1 - stop)
    change = slope(lambda x: mean_inverse_length(float(x[0])), np.array([stop]))[0] * by_logit
    # u = (-1, 1), mean over the two answers.
    np.testing.assert_allclose(
        stop_gradient("grpo", beta=0.0), [-change / 2, change / 2], atol=1e-9
    )
    assert change > 0.05
    np.testing.assert_allclose(stop_gradient("dr_grpo"), 0, atol=1e-12)


def test_all_tokens_of_a_single_pair_leave_a_bias() -> None:
    """The divisor of DAPO is random and grows with the length, so that short answers weigh more here too."""
    wrong, right = stop_gradient("dapo")
    assert right > 0.01
    np.testing.assert_allclose(wrong, -right)


@pytest.mark.parametrize("length", [30, 400, 5000])
def test_adaptive_lambda_has_a_horizon_of_a_fixed_share_of_the_length(length: int) -> None:
    """The weights λ^l of GAE sum to 1/(1 - λ) = alpha·length, seen as the advantage of residuals that are all 1."""
    lam = tpo.objectives.length_adaptive_lambda(np.array([float(length)]), alpha=0.05)
    ones = np.ones((1, 100 * length))
    total = tpo.objectives.gae(ones, np.zeros_like(ones), lam=lam[:, None])[0, 0]
    np.testing.assert_allclose(total, 0.05 * length, rtol=1e-6)


def test_with_lambda_one_later_predictions_drop_out_of_the_advantage() -> None:
    rewards = np.zeros((1, 40))
    rewards[0, -1] = 1.0
    values = RNG.normal(size=(1, 40))
    np.testing.assert_allclose(tpo.objectives.gae(rewards, values, lam=1.0), 1 - values)


def test_gspo_weighs_all_tokens_of_an_answer_alike_and_grpo_by_their_own_ratios() -> None:
    old = -RNG.exponential(size=(1, 2, 6))
    new = old + 0.1 * RNG.normal(size=old.shape)
    groups = tpo.Groups(log_probs_old=old, scores=np.array([[1.0, 0.0]]))  # u = (1, -1)
    u = np.array([1.0, -1.0])[:, None]
    ratios = np.exp(new - old)[0]
    mean_ratio = np.exp((new - old)[0].mean(-1, keepdims=True))
    expected = {"grpo": ratios, "gspo": mean_ratio, "gspo_token": mean_ratio}
    wide = {"clip_low": 0.9, "clip_high": 9.0}
    for name, weight in expected.items():
        objective = tpo.objective(name, **({"clip": 0.9, "beta": 0.0} if name == "grpo" else wide))
        c = objective.coefficients(new, objective.prepare(groups))[0]
        np.testing.assert_allclose(c, -weight * u / 12 * np.ones((2, 6)), atol=1e-12)


def token_weight(name: str, ratio: float, advantage: float, **options: Any) -> float:
    """w(r) = -dL/d log-prob over the advantage, of one token in a group of two with u = ±1."""
    objective = tpo.objective(name, **options)
    scores = np.array([[advantage, -advantage]])
    groups = tpo.Groups(log_probs_old=np.zeros((1, 2, 1)), scores=scores)
    x = np.log(np.array([[[ratio], [1.0]]]))
    return float(-2 * objective.coefficients(x, objective.prepare(groups))[0, 0, 0] / advantage)


@pytest.mark.parametrize("ratio", [0.1, 1.0, 1.7, 7.0])
@pytest.mark.parametrize("advantage", [-1.0, 1.0])
def test_gate_of_sapo_and_cap_of_cispo(ratio: float, advantage: float) -> None:
    tau = 1.0 if advantage > 0 else 1.05
    gate = 1 / np.cosh(tau * (ratio - 1) / 2) ** 2
    np.testing.assert_allclose(token_weight("sapo", ratio, advantage), gate * ratio)
    np.testing.assert_allclose(token_weight("cispo", ratio, advantage), min(ratio, 5.0))
    verl = token_weight("cispo", ratio, advantage, floor=0.8, cap=1.2)
    np.testing.assert_allclose(verl, min(max(ratio, 0.8), 1.2))


@pytest.mark.parametrize("p", [0.01, 0.3, 0.99])
def test_gate_of_dg(p: float) -> None:
    """1/(1 + p) for a success and p/(1 + p) for a failure of probability p."""
    dg = tpo.objective("dg", advantage="score")
    log_probs = np.log(np.full((1, 2, 1), p))
    groups = tpo.Groups(log_probs_old=log_probs, scores=np.array([[1.0, -1.0]]))
    c = dg.coefficients(log_probs, dg.prepare(groups))[0, :, 0]
    np.testing.assert_allclose(-2 * c, [1 / (1 + p), -p / (1 + p)])

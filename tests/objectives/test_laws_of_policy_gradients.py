"""What the course in docs/learn states as laws of policy gradients, exact: by enumeration, not by sampling."""

from itertools import product
from typing import Any

import numpy as np
import pytest

import tpo
from support.libraries import LIBRARIES, asarray, double
from tpo.diagnostics import chain
from tpo.objectives import gae, n_step, optimal_baseline, vtrace

ARMS = 5
RNG = np.random.default_rng(0)
LOGITS = RNG.normal(size=ARMS)
REWARDS = RNG.normal(size=ARMS)


def softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


POLICY = softmax(LOGITS)
SCORES = np.eye(ARMS) - POLICY
"""[arm, logit] ∇ log pi of each arm"""


def slope(f: Any, x: np.ndarray, step: float = 1e-6) -> np.ndarray:
    """df/dx by central differences."""
    found = np.zeros_like(x)
    for i in np.ndindex(x.shape):
        moved, back = x.copy(), x.copy()
        moved[i] += step
        back[i] -= step
        found[i] = (f(moved) - f(back)) / (2 * step)
    return found


GRADIENT = slope(lambda x: softmax(x) @ REWARDS, LOGITS)


def updates(baseline: float = 0.0, name: str = "reinforce", **options: Any) -> np.ndarray:
    """[arm, logit] the step up of one sample, for each arm that could be sampled: -coefficient·∇ log pi."""
    objective = tpo.objective(name, **options)
    log_policy = np.log(POLICY)[:, None, None]
    group = tpo.Groups(
        log_probs_old=log_policy, scores=REWARDS[:, None], baseline=np.full(ARMS, baseline)
    )
    c = objective.coefficients(log_policy, objective.prepare(group))[:, 0]
    return -ARMS * c * SCORES


def variance(steps: np.ndarray) -> float:
    """The total variance of a step, exactly."""
    return float(POLICY @ (steps**2).sum(-1) - ((POLICY @ steps) ** 2).sum())


@pytest.mark.parametrize("baseline", [-3.0, 0.0, 0.7, 100.0])
def test_reinforce_is_unbiased_with_any_baseline(baseline: float) -> None:
    expected = POLICY @ updates(baseline, advantage="given")
    np.testing.assert_allclose(expected, GRADIENT, atol=1e-8)


def test_own_mean_as_baseline_shrinks_the_gradient_and_leaving_one_out_does_not() -> None:
    """Over all tuples of K = 3 samples: E = (K - 1)/K of the gradient with the group mean, all of it with RLOO."""
    samples = np.array(list(product(range(ARMS), repeat=3)))
    weight = POLICY[samples].prod(-1)
    group = tpo.Groups(log_probs_old=np.log(POLICY)[samples][..., None], scores=REWARDS[samples])

    def expected(name: str, **options: Any) -> np.ndarray:
        objective = tpo.objective(name, **options)
        c = objective.coefficients(group.log_probs_old, objective.prepare(group))[..., 0]
        return -len(samples) * np.einsum("n,nk,nkj->j", weight, c, SCORES[samples])

    np.testing.assert_allclose(expected("rloo"), GRADIENT, atol=1e-8)
    biased = expected("reinforce", advantage="centred")
    np.testing.assert_allclose(biased, 2 / 3 * GRADIENT, atol=1e-8)


@pytest.mark.parametrize("seed", range(20))
def test_unequal_rates_stay_within_90_degrees_and_no_further_than_their_spread_allows(
    seed: int,
) -> None:
    """E[step] = rates·gradient; cos >= 2 sqrt(κ)/(1 + κ), κ the largest rate over the smallest (Kantorovich)."""
    rates = np.exp(np.random.default_rng(seed).normal(scale=3, size=ARMS))
    mean = POLICY @ (rates * updates(0.3, advantage="given"))
    inner = mean @ GRADIENT
    kappa = rates.max() / rates.min()
    cosine = inner / np.linalg.norm(mean) / np.linalg.norm(GRADIENT)
    assert inner > 0
    assert cosine >= 2 * np.sqrt(kappa) / (1 + kappa) - 1e-9


def test_rates_from_the_sample_itself_can_point_downhill() -> None:
    """Two arms with pi = (.3, .7), rewards (5, 1): E[g] = .3·.7·4 = .84, E[sign g] = .3 - .7 = -.4."""
    p = np.array([0.3, 0.7])
    log_p = np.log(p)[:, None, None]
    group = tpo.Groups(log_probs_old=log_p, scores=np.array([[5.0], [1.0]]))
    reinforce = tpo.objective("reinforce", advantage="score")
    c = reinforce.coefficients(log_p, reinforce.prepare(group))[:, 0, 0]
    g = (
        -2 * c * (np.array([1.0, 0.0]) - 0.3)
    )  # by the first logit; the loss is a mean over 2 samples
    np.testing.assert_allclose([p @ g, p @ np.sign(g)], [0.84, -0.4])


MDP = chain()
CHAIN_LOGITS = np.random.default_rng(1).normal(size=(5, 2))


def test_policy_gradient_theorem_on_the_chain() -> None:
    found = slope(lambda x: MDP.performance(softmax(x)), CHAIN_LOGITS)
    np.testing.assert_allclose(MDP.gradient(softmax(CHAIN_LOGITS)), found, atol=1e-8)


@pytest.mark.parametrize("gamma", [0.0, 0.5, 0.9, 0.99])
def test_occupancy_sums_to_one_over_one_minus_gamma(gamma: float) -> None:
    """And it is Σ γ^t P(s_t = s), here summed term by term."""
    mdp, policy = chain(gamma=gamma), softmax(CHAIN_LOGITS)
    occupancy = mdp.occupancy(policy)
    np.testing.assert_allclose(occupancy.sum(), 1 / (1 - gamma))
    moves = np.einsum("sa,sat->st", policy, mdp.transitions)
    at, total = mdp.start, np.zeros(5)
    for t in range(4000):
        total = total + gamma**t * at
        at = at @ moves
    np.testing.assert_allclose(occupancy, total, atol=1e-9)


def test_values_of_the_chain_are_its_mean_returns() -> None:
    policy = softmax(CHAIN_LOGITS)
    found = MDP.rollouts(policy, 4000, 120, np.random.default_rng(0))
    returns = gae(found.rewards, np.zeros_like(found.rewards), MDP.gamma, 1.0)[:, 0]
    error = returns.std() / np.sqrt(len(returns))
    assert abs(returns.mean() - MDP.performance(policy)) < 4 * error
    assert error < 0.05 * MDP.performance(policy)


def test_performance_difference_is_the_new_policys_mean_of_the_old_advantages() -> None:
    old, new = softmax(CHAIN_LOGITS), softmax(CHAIN_LOGITS[::-1])
    gain = MDP.occupancy(new) @ (new * MDP.advantages(old)).sum(-1)
    np.testing.assert_allclose(gain, MDP.performance(new) - MDP.performance(old))


@pytest.mark.parametrize("rho_cap", [0.3, 1.0, 1e6])
@pytest.mark.parametrize("c_cap", [0.2, 1e6])
def test_vtrace_is_at_rest_at_the_value_of_the_policy_that_its_cap_leaves(
    rho_cap: float, c_cap: float
) -> None:
    """Over all paths of two steps: E[v_t] = V of the policy in proportion to min(rho·b, pi), whatever c is."""
    behaviour, policy = softmax(CHAIN_LOGITS), softmax(CHAIN_LOGITS[::-1])
    left = np.minimum(rho_cap * behaviour, policy)
    values = MDP.values(left / left.sum(-1, keepdims=True))
    after = MDP.gamma * MDP.transitions @ values  # a path ends with the mean value of what follows
    paths = np.array(list(product(range(5), range(2), range(5), range(2))))
    s, a, t, b = paths.T
    rewards = np.stack([MDP.rewards[s, a], (MDP.rewards + after)[t, b]], -1)
    ratios = np.log(policy / behaviour)
    log_ratios = np.stack([ratios[s, a], ratios[t, b]], -1)
    seen = np.stack([values[s], values[t]], -1)
    found = vtrace(log_ratios, rewards, seen, MDP.gamma, rho_cap, c_cap).targets[:, 0]
    chance = behaviour[s, a] * MDP.transitions[s, a, t] * behaviour[t, b]
    np.testing.assert_allclose(np.bincount(s, chance * found), values, atol=1e-12)
    assert (np.abs(values - MDP.values(policy)).max() > 0.1) == (rho_cap < 1e6)


def test_no_constant_has_less_variance_than_the_optimal_baseline() -> None:
    """The variance is a parabola in b: E‖s‖²·(b - b*)² above its minimum, for every b."""
    norms = (SCORES**2).sum(-1)
    best = float(optimal_baseline(REWARDS, norms, POLICY))
    least = variance(updates(best, advantage="given"))
    for b in (*np.linspace(-3, 3, 25), POLICY @ REWARDS):
        above = variance(updates(float(b), advantage="given")) - least
        np.testing.assert_allclose(above, POLICY @ norms * (b - best) ** 2, atol=1e-9)
    moment = POLICY @ (REWARDS * norms) - (POLICY @ REWARDS) * (POLICY @ norms)
    np.testing.assert_allclose(best, POLICY @ REWARDS + moment / (POLICY @ norms))
    assert optimal_baseline(REWARDS, np.zeros(ARMS)) == 0


@pytest.mark.parametrize("library", LIBRARIES)
def test_n_step_and_its_weighted_mean_is_gae(library: str) -> None:
    rng = np.random.default_rng(2)
    rewards, values = rng.normal(size=(2, 3, 6))
    gamma, lam, steps = 0.9, 0.7, 6
    with double(library):
        r, v = asarray(library, rewards), asarray(library, values)
        by_n = [np.asarray(n_step(r, v, n, gamma)) for n in range(1, steps + 1)]
        both = {one: np.asarray(gae(r, v, gamma, one)) for one in (0.0, lam, 1.0)}
    # by hand, n = 2 at t = 3: r_3 + .9 r_4 + .81 V_5 - V_3
    two = rewards[:, 3] + 0.9 * rewards[:, 4] + 0.81 * values[:, 5] - values[:, 3]
    np.testing.assert_allclose(by_n[1][:, 3], two)
    weights = [(1 - lam) * lam ** (n - 1) for n in range(1, steps)] + [lam ** (steps - 1)]
    mean = np.einsum("n,nbt->bt", weights, np.array(by_n))
    np.testing.assert_allclose(mean, both[lam], atol=1e-12)
    np.testing.assert_allclose(by_n[0], both[0.0], atol=1e-12)
    np.testing.assert_allclose(by_n[-1], both[1.0], atol=1e-12)


def test_n_step_skips_masked_tokens_and_names_a_wrong_n() -> None:
    rng = np.random.default_rng(3)
    rewards, values = rng.normal(size=(2, 1, 4))
    gap = np.array([[True, True, False, True, True, False]])
    wide = [np.full((1, 6), np.nan) for _ in range(2)]
    for x, y in zip(wide, (rewards, values), strict=True):
        x[gap] = y[0]
    found = n_step(*wide, 2, 0.9, mask=gap)
    np.testing.assert_allclose(found[gap], n_step(rewards, values, 2, 0.9)[0])
    assert (found[~gap] == 0).all()
    with pytest.raises(ValueError, match="n is 0, expected a whole number, 1 or above"):
        n_step(rewards, values, 0)

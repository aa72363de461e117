"""Diagnostics, the talk's numbers, returns, KL estimators: by hand and by law."""

from typing import Any

import numpy as np
import pytest
import torch

import tpo
from support.libraries import LIBRARIES, asarray, double
from tpo import diagnostics
from tpo.diagnostics import population


@pytest.fixture(params=LIBRARIES)
def on(request: pytest.FixtureRequest) -> Any:
    """Put a list or array onto one of the libraries, in float64."""
    with double(request.param):
        yield lambda x: asarray(request.param, np.asarray(x))


def close(got: Any, expected: Any, atol: float = 1e-9) -> None:
    np.testing.assert_allclose(np.asarray(got), expected, atol=atol)


def test_effective_candidates(on: Any) -> None:
    # 1/(.5² + .25² + .25²) = 1/.375; uniform over 4; one-hot; a masked candidate leaves (.5, .5).
    close(diagnostics.effective_candidates(on(np.log([0.5, 0.25, 0.25]))), 8 / 3)
    close(diagnostics.effective_candidates(on([[0.0] * 4, [0.0, -1e3, -1e3, -1e3]])), [4, 1])
    close(diagnostics.effective_candidates(on([0.0, 0.0, np.nan]), on([True, True, False])), 2)
    close(diagnostics.effective_candidates(on([[0.0, 0.0]]), on([[False, False]])), 0)


def test_divergences(on: Any) -> None:
    q, p = [0.5, 0.5, 0.0], [0.25, 0.25, 0.5]
    # KL = 2·.5·log 2; TV = (.25 + .25 + .5)/2; H(p) = 2·.25 log 4 + .5 log 2 = 1.5 log 2.
    close(diagnostics.kl(on(q), on(np.log(p))), np.log(2))
    close(diagnostics.total_variation(on(q), on(np.log(p))), 0.5)
    close(diagnostics.entropy(on(np.log(p))), 1.5 * np.log(2))
    mask = on([True, True, False])
    close(diagnostics.kl(on(q), on([0.0, 0.0, np.nan]), mask), 0)
    close(diagnostics.entropy(on([0.0, 0.0, np.nan]), mask), np.log(2))


def test_group_shares(on: Any) -> None:
    scores = [[0.0, 0.0, 0.0], [1.0, 1.0, 1.0], [0.0, 1.0, 0.0], [0.0, 0.2, 0.0]]
    shares = diagnostics.group_shares(on(scores))
    close([shares.zero_variance, shares.all_fail, shares.all_pass], [0.5, 0.5, 0.25])
    # Without the winner of the third group, and without the second group at all: fails are 3 of 3.
    mask = [[True] * 3, [False] * 3, [True, False, True], [True] * 3]
    shares = diagnostics.group_shares(on(scores), on(mask))
    close([shares.zero_variance, shares.all_fail, shares.all_pass], [2 / 3, 1, 0])


def test_target_mass(on: Any) -> None:
    q = [[0.7, 0.2, 0.1], [1 / 3] * 3, [0.1, 0.3, 0.6]]
    scores = [[1.0, 0.0, 0.0], [1.0, 1.0, 1.0], [0.0, 1.0, 1.0]]
    mass = diagnostics.target_mass(on(q), on(scores))
    close([mass.winners, mass.losers], [0.8, 0.2])  # (.7 + .9)/2; the constant group does not count
    mass = diagnostics.target_mass(
        on(q), on(scores), on([[True] * 3, [True] * 3, [True, False, True]])
    )
    close([mass.winners, mass.losers], [(0.7 + 0.6) / 2, (0.3 + 0.1) / 2])


def test_population_coefficients() -> None:
    # The paper's table at p = .1, A = 10, where it prints .73 for TPO: λ = e^(10/3) = 28.0316249,
    # .1·27.0316249/(.9 + 2.8031625).
    betas = [
        float(population.population_beta(m, 0.1, 10)) for m in ("ce", "pg", "dg", "grpo", "tpo")
    ]
    close(betas, [1, 0.1, 0.0909090909, 1 / 3, 0.7299605], 1e-6)
    with pytest.raises(ValueError, match="unknown method 'ppo'. Valid names: ce, pg"):
        population.population_beta("ppo", 0.1, 10)


@pytest.mark.parametrize("p", [0.05, 0.1, 0.5, 0.95])
def test_population_coefficients_follow_from_the_objectives(p: float) -> None:
    """Each beta is what its objective's own coefficients give, averaged exactly over all actions."""
    arms = 10
    policy = np.full(arms, (1 - p) / (arms - 1))
    policy[0] = p
    log_policy, reward = np.log(policy)[None, :, None], np.eye(arms)[:1]
    away = np.eye(arms)[0] - policy
    group = tpo.Groups(log_probs_old=log_policy, scores=reward)

    def direction(c: np.ndarray) -> float:
        """-Σ_a c_a·(e_a - pi) is beta·(e_y - pi); the number is beta."""
        g = -(np.eye(arms) - policy).T @ c
        np.testing.assert_allclose(g, g[0] / away[0] * away, atol=1e-12)
        return float(g[0] / away[0])

    def coefficients(name: str, **options: Any) -> np.ndarray:
        objective = tpo.objective(name, **options)
        return objective.coefficients(log_policy, objective.prepare(group))[0, :, 0]

    close(direction(coefficients("tpo")), population.population_beta("tpo", p, arms))
    close(direction(coefficients("ce")), population.population_beta("ce", p, arms))
    # Sampled methods see action a with probability pi_a; the group above has each action once, weight 1/arms.
    sampled = policy * arms
    plain = coefficients("reinforce", advantage="score") * sampled
    close(direction(plain), population.population_beta("pg", p, arms))
    gated = coefficients("dg", advantage="score") * sampled
    close(direction(gated), population.population_beta("dg", p, arms))
    # GRPO's z-score is over the samples, of which a share p succeeds: 20 copies of one success and failures.
    copies = 20
    scores = (np.arange(copies) < round(p * copies)).astype(float)[None]
    z = tpo.standardize(scores)[0]
    if 0 < scores.sum() < copies and abs(scores.mean() - p) < 1e-9:
        u = np.full(arms, z[-1])
        u[0] = z[0]
        close(direction(-u * policy), population.population_beta("grpo", p, arms))


def test_gamma_is_tpo_after_a_sampled_failure() -> None:
    # A failed action j among A: scores -e_j, so u_j = -3, others 1/3 (A = 10); pi - q = gamma(pi_j)(pi - e_j) reversed.
    policy = np.array([0.3, 0.2, *([0.5 / 8] * 8)])
    q = tpo.target(np.log(policy), tpo.standardize(-np.eye(10)[1]))
    expected = population.population_gamma(policy[1], 10) * (policy - np.eye(10)[1])
    close(q - policy, expected)


def test_gradient_share() -> None:
    share = population.gradient_share()
    close(
        [share[m].coefficient for m in ("grpo", "pg", "dg", "tpo")],
        [19, 19, 10.2307692, 1.6746616],
        1e-6,
    )
    close([share["grpo"].gradient, share["tpo"].gradient], [1.0, 0.0881401], 1e-6)


def test_rare_failure() -> None:
    push = population.rare_failure()
    close(push, [-0.4520, 0.2520, 0.2100, -0.01004], 5e-5)
    close(push[0] / push[3], 45)
    close(push.sum(), 0)


def test_clip_bound() -> None:
    bound = population.clip_bound()
    close(bound.clipped, 0.012)
    close([bound.target[k] for k in (4, 8, 16)], [0.0923, 0.1720, 0.3861], 5e-5)
    assert population.clip_bound(p=0.9).clipped == 1.0


def test_gae(on: Any) -> None:
    rewards, values = on([[0.0, 0.0, 1.0]]), on([[0.5, 0.6, 0.7]])
    # deltas: .6 - .5, .7 - .6, 1 - .7 = .1, .1, .3
    close(tpo.objectives.gae(rewards, values, lam=0.0), [[0.1, 0.1, 0.3]])
    close(tpo.objectives.gae(rewards, values, lam=1.0), [[0.5, 0.4, 0.3]])  # return 1 minus V
    close(tpo.objectives.gae(rewards, values, lam=0.5), [[0.1 + 0.25 / 2, 0.25, 0.3]])
    # gamma .5: deltas .3 - .5, .35 - .6, .3; λ = 1: -.2 + .5(-.25 + .15), -.25 + .15, .3
    close(tpo.objectives.gae(rewards, values, gamma=0.5, lam=1.0), [[-0.25, -0.1, 0.3]])
    # Masked after the second token: the episode ends there.
    masked = tpo.objectives.gae(
        on([[0.0, 1.0, np.nan]]), values, lam=1.0, mask=on([[True, True, False]])
    )
    close(masked, [[0.5, 0.4, 0]])


def test_gae_follows_its_recursion_on_long_sequences() -> None:
    rng = np.random.default_rng(0)
    rewards, values = rng.standard_normal((2, 3, 300))
    expected, after = np.zeros((3, 300)), np.zeros(3)
    for t in reversed(range(300)):
        following = values[:, t + 1] if t < 299 else 0
        after = rewards[:, t] + 0.9 * following - values[:, t] + 0.9 * 0.95 * after
        expected[:, t] = after
    close(tpo.objectives.gae(rewards, values, gamma=0.9, lam=0.95), expected)


def test_monte_carlo(on: Any) -> None:
    # gamma .5: 4, 2 + 2, 1 + 2; the masked token is passed over
    rewards, mask = on([[1.0, np.nan, 2.0, 4.0]]), on([[True, False, True, True]])
    close(tpo.objectives.monte_carlo(rewards, 0.5, mask), [[3, 0, 4, 4]])
    close(tpo.objectives.monte_carlo(on([[0.0, 0.0, 1.0]])), [[1, 1, 1]])


def test_value_loss(on: Any) -> None:
    # errors 1, -2 and a masked one: (1 + 4)/2/2
    values, targets = on([[2.0, 1.0, np.nan]]), on([[1.0, 3.0, 0.0]])
    mask = on([[True, True, False]])
    close(tpo.objectives.value_loss(values, targets, mask), 1.25)
    close(tpo.objectives.value_loss(values[:, :2], targets[:, :2]), 1.25)
    close(tpo.objectives.value_loss(values, targets, on([[False, False, False]])), 0)


def test_the_gradient_of_the_value_loss_is_the_error_and_none_reaches_the_targets() -> None:
    values = torch.tensor([[2.0, 1.0, np.nan]], requires_grad=True)
    targets = torch.tensor([[1.0, 3.0, 0.0]], requires_grad=True)
    mask = torch.tensor([[True, True, False]])
    tpo.objectives.value_loss(values, targets, mask).backward()
    close(values.grad, [[0.5, -1, 0]])
    assert targets.grad is None


def test_explained_variance(on: Any) -> None:
    # G = 0, 2, 4, 6: variance 5; G - V = 1, -1, 1, -1: variance 1. Adding 10 to V changes nothing.
    returns, values = on([[0.0, 2.0], [4.0, 6.0]]), on([[-1.0, 3.0], [3.0, 7.0]])
    close(tpo.objectives.explained_variance(values, returns), 0.8)
    close(tpo.objectives.explained_variance(values + 10, returns), 0.8)
    close(tpo.objectives.explained_variance(0 * values, returns), 0)
    close(tpo.objectives.explained_variance(-values, returns), -4)  # variance of G + V: 25
    close(tpo.objectives.explained_variance(values, 0 * returns + 0.3), 0)  # nothing to explain
    masked = on([[True, True], [True, False]])
    # G = 0, 2, 4: variance 8/3; G - V = 1, -1, 1: variance 8/9
    close(tpo.objectives.explained_variance(values, returns, masked), 2 / 3)


@pytest.mark.parametrize("lam", [0.0, 0.6, 1.0])
def test_returns_pass_over_a_tools_tokens(on: Any, lam: float) -> None:
    # the same as on the sequence without the masked tokens, for each of the three returns
    rng = np.random.default_rng(3)
    rewards, values, log_ratios, q = rng.standard_normal((4, 2, 7))
    mask = np.array([[1, 1, 0, 0, 1, 0, 1], [0, 1, 1, 0, 1, 1, 0]]) > 0
    rewards, values = np.where(mask, rewards, np.nan), np.where(mask, values, np.nan)

    def compacted(x: np.ndarray) -> Any:
        return on(np.stack([row[keep] for row, keep in zip(x, mask, strict=True)]))

    def agree(got: Any, expected: Any) -> None:
        close(np.asarray(got)[mask].reshape(2, 4), np.asarray(expected))
        close(np.asarray(got)[~mask], 0)

    every = [rewards, values, log_ratios, q]
    short, long = [compacted(x) for x in every], [on(x) for x in every]
    agree(
        tpo.objectives.gae(long[0], long[1], 0.9, lam, on(mask)),
        tpo.objectives.gae(short[0], short[1], 0.9, lam),
    )
    got = tpo.objectives.vtrace(long[2], long[0], long[1], 0.9, mask=on(mask))
    expected = tpo.objectives.vtrace(short[2], short[0], short[1], 0.9)
    agree(got.targets, expected.targets)
    agree(got.advantages, expected.advantages)
    agree(
        tpo.objectives.retrace(long[2], long[0], long[3], long[1], 0.9, lam, on(mask)),
        tpo.objectives.retrace(short[2], short[0], short[3], short[1], 0.9, lam),
    )


def test_length_adaptive_lambda(on: Any) -> None:
    # 1 - 1/(.05·100) = .8; up to 20 tokens it would be negative, and is 0.
    close(tpo.objectives.length_adaptive_lambda(on([100.0, 40.0, 20.0, 3.0])), [0.8, 0.5, 0, 0])


def test_vtrace(on: Any) -> None:
    rewards, values = on([[0.0, 1.0]]), on([[0.5, 0.25]])
    zero = on([[0.0, 0.0]])
    on_policy = tpo.objectives.vtrace(zero, rewards, values)
    close(on_policy.targets, [[1, 1]])  # Monte Carlo
    close(on_policy.advantages, [[0.5, 0.75]])
    # Ratios 4 -> capped at 1, and 1/2: v_1 = .25 + .5·.75 = .625; v_0 = .5 + (.25 - .5) + (.625 - .25) = .625;
    # A_0 = .625 - .5, A_1 = .5·(1 - .25).
    off = tpo.objectives.vtrace(on(np.log([[4.0, 0.5]])), rewards, values)
    close(off.targets, [[0.625, 0.625]])
    close(off.advantages, [[0.125, 0.375]])


def test_retrace(on: Any) -> None:
    rewards, q, v = on([[0.0, 1.0]]), on([[0.4, 0.3]]), on([[0.5, 0.25]])
    # On-policy: Q_1 = 1; δ_0 = .25 - .4, Q_0 = .4 - .15 + (1 - .3) = .95. With c_1 = 1/2: .25 + .35 = .6.
    close(tpo.objectives.retrace(on([[0.0, 0.0]]), rewards, q, v), [[0.95, 1]])
    close(tpo.objectives.retrace(on(np.log([[9.0, 0.5]])), rewards, q, v), [[0.6, 1]])


def test_kl_estimators(on: Any) -> None:
    d = np.log([2.0, 0.5])
    pi, ref = on(d), on([0.0, 0.0])
    close(tpo.objectives.k1(pi, ref), d)
    close(tpo.objectives.k2(pi, ref), d**2 / 2)
    close(tpo.objectives.k3(pi, ref), [0.5 + d[0] - 1, 2 + d[1] - 1])


def test_expected_gradients_of_the_kl_estimators() -> None:
    """As losses: E∇k1 = 0, E∇k2 = ∇KL(pi‖ref), E∇k3 = ∇KL(ref‖pi), exactly over all actions."""
    rng = np.random.default_rng(0)
    x, ref = rng.standard_normal((2, 5))
    pi, ref = np.exp(x) / np.exp(x).sum(), np.exp(ref) / np.exp(ref).sum()
    d = np.log(pi / ref)
    score = np.eye(5) - pi  # d log pi_a / d logits
    close((pi * 1.0) @ score, 0)
    close((pi * d) @ score, pi * (d - (pi * d).sum()))
    close((pi * (1 - 1 / np.exp(d))) @ score, pi - ref)


def test_overlong_penalty(on: Any) -> None:
    lengths = on([16384.0, 18432.0, 20480.0, 30000.0])
    close(tpo.objectives.overlong_penalty(lengths), [0, -0.5, -1, -1])
    with pytest.raises(ValueError, match="cache is 9.0, expected at most max_length"):
        tpo.objectives.overlong_penalty(lengths, max_length=5.0, cache=9.0)

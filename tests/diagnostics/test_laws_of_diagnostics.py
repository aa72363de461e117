"""Laws of the diagnostics, for random groups and policies; NumPy alone."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

import tpo
from support.random_groups import SEEDS, Batch, batches, close, softmax
from tpo.diagnostics import (
    MDP,
    clip_bound,
    effective_candidates,
    entropy,
    gradient_share,
    group_shares,
    kl,
    odds_factor,
    population_beta,
    population_gamma,
    rare_failure,
    target_mass,
    total_variation,
)

SINGLE = batches(T=1)
ARMS = st.integers(2, 30)
INSIDE = st.floats(0.001, 0.999)


@given(SINGLE)
def test_entropy_and_effective_candidates_lie_between_one_candidate_and_all(batch: Batch) -> None:
    """1 <= 1/Σp² <= e^H <= K."""
    x = 3 * batch.new[..., 0]
    effective, perplexity = effective_candidates(x), np.exp(entropy(x))
    assert (effective >= 1 - 1e-12).all()
    assert (effective <= perplexity + 1e-9).all()
    assert (perplexity <= x.shape[1] + 1e-9).all()


@given(batches(T=1, masks=True))
def test_diagnostics_of_valid_candidates_are_those_of_the_group_without_the_others(
    batch: Batch,
) -> None:
    x, valid = batch.new[..., 0], batch.fields["valid"]
    q = np.where(valid, 1.0, 0.0) / valid.sum(-1, keepdims=True)
    for row, kept, goal, *found in zip(
        *(x, valid, q, entropy(x, valid), effective_candidates(x, valid)),
        *(kl(q, x, valid), total_variation(q, x, valid)),
        strict=True,
    ):
        alone, goal = row[kept], goal[kept]
        expected = [entropy(alone), effective_candidates(alone)]
        close(found, [*expected, kl(goal, alone), total_variation(goal, alone)])


@given(SINGLE, SEEDS)
def test_kl_is_0_at_the_target_alone_and_bounds_the_total_variation(
    batch: Batch, seed: int
) -> None:
    """Pinsker: TV² <= KL/2."""
    x = batch.new[..., 0]
    q = softmax(np.random.default_rng(seed).normal(size=x.shape))
    close(kl(q, np.log(q)), 0)
    assert (kl(q, x) > 0).all()
    assert (total_variation(q, x) ** 2 <= kl(q, x) / 2 + 1e-12).all()


@given(SINGLE, SEEDS)
def test_total_variation_is_a_share_and_does_not_depend_on_the_direction(
    batch: Batch, seed: int
) -> None:
    p = softmax(batch.new[..., 0])
    q = softmax(np.random.default_rng(seed).normal(size=p.shape))
    close(total_variation(q, np.log(p)), total_variation(p, np.log(q)))
    assert (total_variation(q, np.log(p)) <= 1).all()
    assert not total_variation(p, np.log(p)).round(12).any()


@given(st.integers(1, 8), st.integers(1, 6), SEEDS)
def test_with_two_levels_a_group_is_uninformative_if_all_fail_or_all_pass(
    B: int, K: int, seed: int
) -> None:
    scores = np.random.default_rng(seed).integers(0, 2, (B, K)).astype(float)
    shares = group_shares(scores)
    close(shares.zero_variance, shares.all_fail + shares.all_pass)
    close(shares.all_fail, (scores.sum(-1) == 0).mean())


@given(st.floats(0, 1), st.integers(1, 5))
def test_a_score_at_the_threshold_is_not_a_success(threshold: float, K: int) -> None:
    at, above = np.full((1, K), threshold), np.full((1, K), threshold + 0.1)
    assert group_shares(at, threshold=threshold).all_fail == 1
    assert group_shares(above, threshold=threshold).all_pass == 1
    both = np.concatenate([at, above], -1)
    mass = target_mass(np.full_like(both, 0.5 / K), both, threshold=threshold)
    close(mass, 0.5)


@given(batches(("binary",), T=1), st.floats(0.1, 10))
def test_the_mass_of_the_target_is_on_winners_and_losers_and_leans_to_the_winners(
    batch: Batch, eta: float
) -> None:
    old = batch.old[..., 0]
    q = tpo.target(old, tpo.standardize(batch.scores), eta)
    mass, before = target_mass(q, batch.scores), target_mass(softmax(old), batch.scores)
    close(mass.winners + mass.losers, 1)
    assert mass.winners > before.winners


@given(ARMS, INSIDE)
def test_tpo_multiplies_the_odds_of_the_one_success(arms: int, p: float) -> None:
    old = np.full(arms, (1 - p) / (arms - 1))
    old[0] = p
    q = tpo.target(np.log(old), tpo.standardize(np.eye(arms)[0]))[0]
    np.testing.assert_allclose(q / (1 - q), odds_factor(arms) * p / (1 - p), rtol=1e-6)


@given(ARMS, INSIDE)
def test_weights_of_the_exact_update_are_ordered_and_at_most_cross_entropys(
    arms: int, p: float
) -> None:
    """DG < PG < CE, and TPO's lies above PG's and below CE's; q - p of the one success is beta·(1 - p)."""
    beta = {name: float(population_beta(name, p, arms)) for name in ("ce", "pg", "dg", "tpo")}
    assert beta["dg"] < beta["pg"] < beta["ce"] == 1
    assert beta["dg"] < beta["tpo"] < 1
    odds = odds_factor(arms) * p / (1 - p)
    close(beta["tpo"] * (1 - p), odds / (1 + odds) - p)


@given(ARMS, INSIDE)
def test_a_sampled_wrong_action_loses_what_its_target_says(arms: int, p: float) -> None:
    """q - p = -gamma·(1 - p) for the one failure among equal successes."""
    old = np.full(arms, (1 - p) / (arms - 1))
    old[0] = p
    q = tpo.target(np.log(old), tpo.standardize(1 - np.eye(arms)[0]))[0]
    close(p - q, population_gamma(np.array(p), arms) * (1 - p), 1e-8)


@given(INSIDE, INSIDE, ARMS)
def test_shares_of_easy_and_hard_prompts_are_inverse_to_each_other(
    easy: float, hard: float, arms: int
) -> None:
    there, back = gradient_share(easy, hard, arms), gradient_share(hard, easy, arms)
    for name in there:
        np.testing.assert_allclose(there[name].coefficient * back[name].coefficient, 1)
        np.testing.assert_allclose(there[name].gradient * back[name].gradient, 1)


@given(st.integers(2, 8), SEEDS)
def test_tpo_moves_mass_from_failures_to_successes_and_creates_none(K: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    rewards = np.eye(K)[0] + (rng.random(K) < 0.3) * (np.arange(K) < K - 1)
    moved = rare_failure(rng.dirichlet(np.ones(K)) + 1e-6, rewards > 0)
    close(moved.sum(), 0, 1e-4)
    assert (moved[rewards > 0] >= 0).all()
    assert (moved[rewards == 0] <= 0).all()


@given(st.floats(1e-4, 0.5), st.floats(0.05, 0.5))
def test_the_reach_of_the_target_grows_with_the_group_and_clipping_has_one(
    p: float, clip: float
) -> None:
    found = clip_bound(p, clip, (2, 4, 8, 16))
    close(found.clipped, min(p * (1 + clip), 1))
    assert list(found.target.values()) == sorted(found.target.values())
    assert max(found.target.values()) < 1


@given(st.integers(2, 5), st.integers(2, 3), SEEDS)
def test_policy_gradient_of_any_small_mdp_is_the_slope_of_its_performance(
    S: int, A: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    mdp = MDP(rng.dirichlet(np.ones(S), (S, A)), rng.normal(size=(S, A)), np.eye(S)[0], 0.8)
    logits, way, step = *rng.normal(size=(2, S, A)), 1e-6
    up, down = (mdp.performance(softmax(logits + s * way)) for s in (step, -step))
    policy = softmax(logits)
    np.testing.assert_allclose(
        (mdp.gradient(policy) * way).sum(), (up - down) / 2 / step, rtol=1e-5, atol=1e-7
    )
    close((policy * mdp.advantages(policy)).sum(-1), 0)
    close(mdp.occupancy(policy).sum(), 5)

"""Laws of standardised scores, advantages and returns, for random groups and sequences; NumPy alone."""

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

import tpo
from support.random_groups import SEEDS, Batch, batches, close
from tpo.objectives import advantages as of
from tpo.objectives import (
    gae,
    length_adaptive_lambda,
    n_step,
    optimal_baseline,
    overlong_penalty,
    retrace,
    vtrace,
)

UNIT = st.floats(0, 1)
SEQUENCES = st.tuples(st.integers(1, 4), st.integers(1, 9), SEEDS)
MASKED = batches(masks=True)


def drawn(sizes: tuple[int, int, int], n: int) -> np.ndarray:
    """n arrays [N, T]."""
    rows, steps, seed = sizes
    return np.random.default_rng(seed).normal(size=(n, rows, steps))


def groups(batch: Batch, **fields: Any) -> tpo.Groups:
    return tpo.Groups(**{**batch.fields, **fields})


def by_group(batch: Batch) -> list[np.ndarray]:
    """The scores of the valid candidates of each group."""
    valid = batch.fields.get("valid", np.ones(batch.scores.shape, bool))
    return [scores[kept] for scores, kept in zip(batch.scores, valid, strict=True)]


# scores


@given(batches())
def test_standardising_twice_is_standardising_once(batch: Batch) -> None:
    u = tpo.standardize(batch.scores)
    close(tpo.standardize(u), u)


@given(batches(), st.floats(0.01, 100), st.floats(-100, 100))
def test_shift_and_scale_leave_standardised_scores_alone(
    batch: Batch, scale: float, shift: float
) -> None:
    close(tpo.standardize(scale * batch.scores + shift), tpo.standardize(batch.scores), 1e-8)


@given(batches())
def test_the_opposite_scores_have_the_opposite_sign(batch: Batch) -> None:
    close(tpo.standardize(-batch.scores), -tpo.standardize(batch.scores))


@given(batches())
def test_standardised_scores_keep_order_and_ties(batch: Batch) -> None:
    scores, u = batch.scores, tpo.standardize(batch.scores)
    before = np.sign(scores[:, :, None] - scores[:, None, :])
    assert (np.sign(u[:, :, None] - u[:, None, :]) == before).all()


@given(batches())
def test_no_standardised_score_exceeds_the_root_of_k_minus_1(batch: Batch) -> None:
    """Samuelson's inequality; one success among failures reaches it."""
    K = batch.scores.shape[1]
    assert np.abs(tpo.standardize(batch.scores)).max() <= np.sqrt(K - 1) + 1e-12
    close(tpo.standardize(np.eye(K))[0, 0], np.sqrt(K - 1))


@given(batches())
def test_candidates_twice_have_the_same_standardised_scores(batch: Batch) -> None:
    u = tpo.standardize(batch.scores)
    close(tpo.standardize(np.tile(batch.scores, 2)), np.tile(u, 2))


@given(MASKED)
def test_masked_scores_are_standardised_as_the_group_without_them(batch: Batch) -> None:
    valid = batch.fields["valid"]
    u = tpo.standardize(batch.scores, valid)
    for row, kept, scores in zip(u, valid, by_group(batch), strict=True):
        close(row[kept], tpo.standardize(scores))
        assert not row[~kept].any()


@given(batches(("continuous",)), st.floats(0.01, 10))
def test_a_floor_replaces_every_smaller_sigma(batch: Batch, floor: float) -> None:
    sigma = batch.scores.std(-1, keepdims=True)
    expected = (batch.scores - batch.scores.mean(-1, keepdims=True)) / np.maximum(sigma, floor)
    close(tpo.standardize(batch.scores, sigma_floor=floor), expected)


@given(batches(), st.integers(-12, 12))
def test_scores_of_any_magnitude_are_standardised_alike(batch: Batch, magnitude: int) -> None:
    close(tpo.standardize(batch.scores * 10.0**magnitude), tpo.standardize(batch.scores))


@given(batches(), st.floats(-1e6, 1e6))
def test_a_group_is_informative_if_two_scores_differ(batch: Batch, score: float) -> None:
    assert groups(batch).informative.all()
    assert not groups(batch, scores=np.full(batch.scores.shape, score)).informative.any()


# advantages


@given(MASKED)
def test_centred_scores_are_scores_minus_the_mean_of_the_group(batch: Batch) -> None:
    found = of.centred(groups(batch))
    for row, kept, scores in zip(found, batch.fields["valid"], by_group(batch), strict=True):
        close(row[kept], scores - scores.mean())
        assert not row[~kept].any()


@given(MASKED)
def test_leaving_one_out_is_the_score_minus_the_mean_of_the_others(batch: Batch) -> None:
    found = of.leave_one_out(groups(batch))
    for row, kept, scores in zip(found, batch.fields["valid"], by_group(batch), strict=True):
        close(row[kept], scores - (scores.sum() - scores) / (len(scores) - 1))


@given(MASKED)
def test_the_mean_of_a_group_is_that_of_its_valid_candidates(batch: Batch) -> None:
    close(of.group_mean(groups(batch))[:, 0], [scores.mean() for scores in by_group(batch)])


@given(batches(("binary",)))
def test_divided_by_the_mean_successes_have_the_odds_of_failing(batch: Batch) -> None:
    rate = batch.scores.mean(-1, keepdims=True)
    expected = np.where(batch.scores == 1, (1 - rate) / rate, -1)
    np.testing.assert_allclose(of.over_mean(groups(batch)), expected, rtol=1e-4)


@given(MASKED)
def test_sigma_of_the_batch_is_that_of_all_valid_scores(batch: Batch) -> None:
    close(of.batch_sigma(groups(batch)), np.concatenate(by_group(batch)).std())


@given(MASKED)
def test_above_its_position_sums_to_zero_over_the_batch(batch: Batch) -> None:
    found = of.above_position(groups(batch))
    close(found.sum((0, 1)), 0, 1e-8)
    assert not found[~groups(batch).mask].any()


@given(MASKED)
def test_an_outcome_is_rewarded_once_on_the_last_token(batch: Batch) -> None:
    group = groups(batch)
    found = of.outcome_rewards(group)
    close(found.sum(-1), group.total)
    last = group.mask & (np.cumsum(group.mask[..., ::-1], -1)[..., ::-1] == 1)
    assert not found[~last].any()


@given(MASKED)
def test_without_dense_rewards_every_token_has_the_score(batch: Batch) -> None:
    group = groups(batch)
    close(of.token_rewards(group), group.total[..., None] * group.mask)


@given(MASKED, SEEDS)
def test_dense_rewards_are_taken_as_they_are(batch: Batch, seed: int) -> None:
    dense = np.random.default_rng(seed).normal(size=batch.new.shape)
    group = groups(batch, token_scores=dense)
    for found in (of.token_rewards(group), of.outcome_rewards(group)):
        close(found, dense * group.mask)


@given(MASKED)
def test_several_rewards_count_as_their_sum(batch: Batch) -> None:
    parts = np.stack([batch.scores / 4, 3 * batch.scores / 4], -1)
    close(groups(batch, scores=parts).total, groups(batch).total)


@given(SEQUENCES)
def test_optimal_baseline_lies_among_the_rewards_and_moves_with_them(
    sizes: tuple[int, int, int],
) -> None:
    rewards, norms = drawn(sizes, 2)
    best = optimal_baseline(rewards, norms**2)
    assert (best >= rewards.min(-1) - 1e-9).all()
    assert (best <= rewards.max(-1) + 1e-9).all()
    close(optimal_baseline(2 * rewards + 3, norms**2), 2 * best + 3)


# returns


@given(SEQUENCES, UNIT, UNIT)
def test_gae_follows_its_recursion(sizes: tuple[int, int, int], gamma: float, lam: float) -> None:
    rewards, values = drawn(sizes, 2)
    found = gae(rewards, values, gamma, lam)
    delta = rewards + gamma * np.pad(values, ((0, 0), (0, 1)))[:, 1:] - values
    close(found, delta + gamma * lam * np.pad(found, ((0, 0), (0, 1)))[:, 1:])


@given(SEQUENCES, UNIT)
def test_gae_with_lambda_one_is_the_return_minus_the_value(
    sizes: tuple[int, int, int], gamma: float
) -> None:
    rewards, values = drawn(sizes, 2)
    returns = np.zeros_like(rewards)
    for t in reversed(range(sizes[1])):
        returns[:, t] = rewards[:, t] + gamma * returns[:, min(t + 1, sizes[1] - 1)]
    close(gae(rewards, values, gamma, 1.0), returns - values)


@given(SEQUENCES, UNIT, UNIT)
def test_gae_is_linear_in_rewards_and_values(
    sizes: tuple[int, int, int], gamma: float, lam: float
) -> None:
    r, s, v, w = drawn(sizes, 4)
    both = gae(r - 2 * s, v - 2 * w, gamma, lam)
    close(both, gae(r, v, gamma, lam) - 2 * gae(s, w, gamma, lam))


@given(SEQUENCES, st.integers(1, 12), UNIT)
def test_n_steps_are_a_sum_of_residuals(sizes: tuple[int, int, int], n: int, gamma: float) -> None:
    rewards, values = drawn(sizes, 2)
    delta = np.pad(gae(rewards, values, gamma, 0.0), ((0, 0), (0, n)))
    expected = sum(gamma**i * delta[:, i : i + sizes[1]] for i in range(n))
    close(n_step(rewards, values, n, gamma), expected)


@given(SEQUENCES, UNIT)
def test_vtrace_on_policy_is_monte_carlo(sizes: tuple[int, int, int], gamma: float) -> None:
    rewards, values = drawn(sizes, 2)
    found = vtrace(np.zeros_like(rewards), rewards, values, gamma)
    close(found.targets, gae(rewards, values, gamma, 1.0) + values)
    close(found.advantages, gae(rewards, values, gamma, 1.0))


@given(SEQUENCES, UNIT)
def test_vtrace_of_actions_that_the_policy_never_takes_keeps_the_values(
    sizes: tuple[int, int, int], gamma: float
) -> None:
    rewards, values = drawn(sizes, 2)
    found = vtrace(np.full_like(rewards, -800.0), rewards, values, gamma)
    close(found.targets, values)
    close(found.advantages, 0)


@given(SEQUENCES, st.floats(0.1, 3), UNIT)
def test_vtrace_does_not_see_how_far_a_ratio_exceeds_its_cap(
    sizes: tuple[int, int, int], cap: float, gamma: float
) -> None:
    rewards, values, beyond = drawn(sizes, 3)
    capped, further = (np.log(cap) + x for x in (np.zeros_like(beyond), np.abs(beyond)))
    for one, other in zip(
        *(vtrace(x, rewards, values, gamma, cap, cap) for x in (capped, further)), strict=True
    ):
        close(one, other)


@given(SEQUENCES, UNIT)
def test_retrace_with_lambda_zero_is_one_step(sizes: tuple[int, int, int], gamma: float) -> None:
    ratios, rewards, q, v = drawn(sizes, 4)
    expected = rewards + gamma * np.pad(v, ((0, 0), (0, 1)))[:, 1:]
    close(retrace(ratios, rewards, q, v, gamma, 0.0), expected)


@given(SEQUENCES, UNIT)
def test_retrace_on_policy_with_q_as_value_is_monte_carlo(
    sizes: tuple[int, int, int], gamma: float
) -> None:
    rewards, q = drawn(sizes, 2)
    found = retrace(np.zeros_like(q), rewards, q, q, gamma)
    close(found, gae(rewards, q, gamma, 1.0) + q)


@given(st.lists(st.floats(1, 1e5), min_size=2, max_size=6), st.floats(0.01, 1))
def test_adaptive_lambda_grows_with_the_length_within_0_and_1(
    lengths: list[float], alpha: float
) -> None:
    lam = length_adaptive_lambda(np.sort(lengths), alpha)
    assert ((lam >= 0) & (lam <= 1)).all()
    assert (np.diff(lam) >= 0).all()


@given(st.lists(st.floats(0, 1e5), min_size=2, max_size=6), st.floats(1, 1e4), st.floats(1, 4))
def test_the_penalty_of_long_answers_falls_from_0_to_minus_1(
    lengths: list[float], cache: float, share: float
) -> None:
    most = cache * share
    found = overlong_penalty(np.sort(lengths), most, cache)
    assert ((found >= -1) & (found <= 0)).all()
    assert (np.diff(found) <= 0).all()
    edges = np.array([most - cache, most - cache / 2, most])
    close(overlong_penalty(edges, most, cache), [0, -0.5, -1])

"""Laws of the weights that single objectives give candidates, and of which candidates count; NumPy alone."""

from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import tpo
from support.random_groups import (
    Batch,
    assert_coefficients_are_the_slope,
    batches,
    close,
    coefficients,
    evaluated,
)

some = settings(max_examples=10)
DROPPING = ("dapo", "grpo_masked", "mt_grpo")
SCORED = ("grpo", "dr_grpo", "gspo", "sapo", "rloo", "maxrl", "group_pg", "reinforce")
"""No sum over the group or the batch but those in advantages and weights."""

VARIANTS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("tpo", {"eta": 0.4, "score": "ratio"}),
    ("tpo", {"eta": 2.0, "score": "mean"}),
    ("tpo_outcomes", {"score": "mean_ratio"}),
    ("lpo_alpha", {"alpha": 0.3}),
    ("lpo_js", {"tau": "one"}),
    ("rebel", {"eta": 0.4}),
    ("pmpo", {"alpha": 0.2, "kl_correction": True}),
    ("mdpo", {"step": 0.4}),
    ("trpo_penalty", {"kl_weight": 0.3}),
    ("pg_is", {"beta": 0.3}),
    ("ppo", {"beta": 0.3, "kl_correction": True}),
    ("grpo", {"kl_correction": True}),
    ("grpo", {"granularity": "sequence", "beta": 1.0}),
    ("grpo", {"granularity": "sequence", "beta": 1.0, "kl_correction": True}),
    ("gspo", {"clip_low": 0.5, "clip_high": 2.0, "beta": 0.5}),
    ("gspo", {"clip_low": 0.5, "clip_high": 2.0, "beta": 0.5, "kl_correction": True}),
    ("sapo", {"tau_negative": 3.0, "beta": 0.3}),
    ("vapo", {"likelihood": 0.7, "beta": 0.3}),
)


@pytest.mark.parametrize(("name", "options"), VARIANTS, ids=str)
@settings(max_examples=6)
@given(batches(masks=True))
def test_with_options_too_coefficients_are_the_slope_of_the_loss(
    name: str, options: dict[str, Any], batch: Batch
) -> None:
    assert_coefficients_are_the_slope(tpo.objective(name, **options), batch)


@pytest.mark.parametrize("name", DROPPING)
@some
@given(batches())
def test_a_group_of_equal_scores_is_left_out_of_the_mean_too(name: str, batch: Batch) -> None:
    wide = {n: np.concatenate([x, x[:1]]) for n, x in batch.fields.items()}
    wide["scores"][-1] = 1.0
    loss, c = evaluated(name, batch)
    more = Batch(wide, np.concatenate([batch.new, batch.new[:1]]), batch.rng)
    loss_2, c_2 = evaluated(name, more)
    close(loss_2, loss)
    close(c_2[:-1], c)
    assert not c_2[-1].any()


@pytest.mark.parametrize("name", SCORED)
@some
@given(batches())
def test_a_scored_candidate_that_is_not_valid_counts_for_the_others_alone(
    name: str, batch: Batch
) -> None:
    """As truncated completions: their scores are in mean, sigma and size of the group, their tokens nowhere."""
    scored = np.ones(batch.scores.shape, bool)
    valid = np.arange(scored.shape[1]) < scored.shape[1] - 1
    options = {"advantage": "centred"} if name == "reinforce" else {}
    objective = tpo.objective(name, **options)
    found = coefficients(objective, batch.having(scored=scored, valid=scored & valid))
    close(found, coefficients(objective, batch) * valid[:, None])


@pytest.mark.parametrize("name", ["tpo", "grpo", "rloo", "mpo", "rebel"])
@some
@given(batches())
def test_a_candidate_without_a_token_is_not_valid(name: str, batch: Batch) -> None:
    mask = np.ones(batch.new.shape, bool)
    mask[:, 0] = False
    found = coefficients(name, batch.having(mask=mask))
    close(found, coefficients(name, batch.having(valid=mask[..., 0])))


@some
@given(batches(T=1), st.floats(0.05, 5), st.floats(1.5, 50))
def test_awr_weighs_by_the_exponential_advantage_up_to_its_cap(
    batch: Batch, temperature: float, cap: float
) -> None:
    above = batch.scores - batch.scores.mean(-1, keepdims=True)
    c = coefficients(tpo.objective("awr", temperature=temperature, cap=cap), batch)[..., 0]
    with np.errstate(over="ignore"):
        close(-c * c.size, np.minimum(np.exp(above / temperature), cap), atol=1e-7)


@some
@given(batches(("continuous",), T=1), st.floats(0.02, 0.4))
def test_temperatures_of_mpo_and_reps_keep_their_weights_epsilon_from_uniform(
    batch: Batch, epsilon: float
) -> None:
    B, K = batch.scores.shape
    w = -coefficients(tpo.objective("mpo", epsilon=epsilon), batch)[..., 0] * B
    close(w.sum(-1), 1)
    close((w * np.log(w * K)).sum(-1).mean(), epsilon, atol=1e-6)
    w = -coefficients(tpo.objective("reps", epsilon=epsilon), batch)[..., 0]
    close(w.sum(), 1)
    close((w * np.log(w * B * K)).sum(), epsilon, atol=1e-6)


@some
@given(batches(("continuous",), T=1))
def test_v_mpo_weighs_the_better_half_of_the_batch(batch: Batch) -> None:
    above = batch.scores - batch.scores.mean(-1, keepdims=True)
    assume(len(np.unique(above.round(9))) == above.size)
    w = -coefficients("v_mpo", batch)[..., 0]
    assert (w > 0).sum() == (above.size + 1) // 2
    assert above[w > 0].min() > above[w == 0].max()


@some
@given(batches(("binary",), T=1), st.floats(0, 1))
def test_pmpo_shares_its_two_pushes_among_accepted_and_rejected(batch: Batch, alpha: float) -> None:
    accepted = batch.scores / batch.scores.sum(-1, keepdims=True)
    rejected = (1 - batch.scores) / (1 - batch.scores).sum(-1, keepdims=True)
    c = coefficients(tpo.objective("pmpo", alpha=alpha, beta=0.0), batch)[..., 0]
    close(-c * len(c), alpha * accepted - (1 - alpha) * rejected)


@pytest.mark.parametrize("tau", ["sigma", "one", "mean", "batch_sigma"])
@some
@given(batches(), st.sampled_from([-1.0, 0.0, 1.0]))
def test_lpo_keeps_the_policy_if_all_scores_are_equal(tau: str, batch: Batch, score: float) -> None:
    equal = batch.having(scores=np.full(batch.scores.shape, score))._replace(new=batch.old)
    close(coefficients(tpo.objective("lpo", tau=tau), equal), 0, atol=1e-14)


@some
@given(batches(("binary",), T=1))
def test_lpo_divides_by_the_tau_that_it_names(batch: Batch) -> None:
    """log-odds of the target of a success against a failure, both of one log-score: 1/tau."""
    flat = batch.having(log_probs_rollout=None, log_probs_old=np.full(batch.new.shape, -1.0))
    expected = {
        "sigma": 1 / flat.scores.std(-1),
        "one": np.ones(len(flat.scores)),
        "mean": 1 / flat.scores.mean(-1),
        "batch_sigma": np.full(len(flat.scores), 1 / flat.scores.std()),
    }
    for tau, odds in expected.items():
        w = tpo.objective("lpo", tau=tau).prepare(tpo.Groups(**flat.fields)).q
        close(np.log(w.max(-1) / w.min(-1)), odds)


@some
@given(batches(("binary",)), st.floats(0.01, 0.99))
def test_lpo_measures_log_ratios_from_the_sampler(batch: Batch, share: float) -> None:
    """Where the policy equals the sampler's, P is uniform, whatever the snapshot was."""
    sampler = batch.fields["log_probs_rollout"]
    c = coefficients("lpo", batch._replace(new=sampler)) * len(sampler)
    w = tpo.objective("lpo").prepare(tpo.Groups(**batch.fields)).q
    close(c.sum(-1), 1 / w.shape[1] - w)


@pytest.mark.parametrize("name", ["grpo", "ppo", "cispo", "pmpo", "pg_is"])
@some
@given(st.floats(20.5, 300), st.sampled_from([-1.0, 1.0]))
def test_a_reference_beyond_the_limit_of_log_ratios_has_no_pull(
    name: str, far: float, side: float
) -> None:
    old = np.full((1, 2, 1), -400.0)
    groups = tpo.Groups(log_probs_old=old, scores=np.ones((1, 2)), log_probs_ref=old + side * far)
    objective = tpo.objective(name, beta=1.0)
    prepared = objective.prepare(groups)
    assert objective.loss(old, prepared) == objective.loss(old + side * 0.1, prepared)
    assert not objective.coefficients(old, prepared).any()


@some
@given(batches())
def test_a_given_baseline_is_subtracted(batch: Batch) -> None:
    c = coefficients("remax", batch)
    above = batch.scores - batch.fields["baseline"][:, None]
    close(-c * above.size, np.repeat(above[..., None], c.shape[-1], -1))


@some
@given(batches(("levels",)), st.lists(st.floats(0.1, 3), min_size=2, max_size=2))
def test_gdpo_adds_its_standardised_rewards_with_their_weights(
    batch: Batch, weights: list[float]
) -> None:
    two = np.stack([batch.scores, batch.scores[:, ::-1] ** 2], -1)
    z = [tpo.standardize(two[..., i]) for i in (0, 1)]
    total = weights[0] * z[0] + weights[1] * z[1]
    assume(total.std() > 1e-3)
    expected = (total - total.mean()) / total.std()
    objective = tpo.objective("gdpo", beta=0.0, reward_weights=tuple(weights))
    c = coefficients(objective, batch.having(scores=two).on_policy())
    close(-c * c.size, np.repeat(expected[..., None], c.shape[-1], -1), atol=1e-8)


@some
@given(batches(("binary",)), st.floats(-3, 3))
def test_mt_grpo_gives_each_task_its_share(batch: Batch, logit: float) -> None:
    """The coefficients of a context are those of a batch of its task alone, times the task's share."""
    assume(len(batch.new) > 1)
    tasks = np.arange(len(batch.new)) % 2
    options = {"task_logits": (logit, 0.0)}
    c = coefficients(tpo.objective("mt_grpo", **options), batch.having(tasks=tasks))
    share = 1 / (1 + np.exp(-logit))
    for task, part in ((0, share), (1, 1 - share)):
        of = {n: x[tasks == task] for n, x in batch.fields.items()}
        alone = coefficients("grpo_masked", Batch(of, batch.new[tasks == task], batch.rng))
        close(c[tasks == task], part * alone)


@some
@given(batches(("binary", "levels")), st.floats(0.01, 0.1))
def test_reinforce_pp_takes_the_kl_of_later_tokens_from_the_reward(
    batch: Batch, beta: float
) -> None:
    gap = batch.old - batch.fields["log_probs_ref"]
    returns = batch.scores[..., None] - beta * np.cumsum(gap[..., ::-1], -1)[..., ::-1]
    expected = (returns - returns.mean()) / returns.std()
    c = coefficients(tpo.objective("reinforce_pp", beta=beta), batch._replace(new=batch.old))
    close(-c * c.size, expected)


@some
@given(batches(("binary",)))
def test_vapo_imitates_the_correct_answers_alone(batch: Batch) -> None:
    more, less = (coefficients(tpo.objective("vapo", likelihood=x), batch) for x in (1.0, 0.0))
    right = np.repeat(batch.scores[..., None], batch.new.shape[-1], -1)
    close(less - more, right / right.sum())

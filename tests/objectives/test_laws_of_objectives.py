"""Laws of objectives for random batches, each for every objective that it holds for; NumPy alone."""

from dataclasses import fields
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
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
from tpo.objectives.base import entry

NAMES = tpo.list_objectives()
GROUPED = [name for name in NAMES if entry(name).make.traits.group]
OPTIONS = {name: {f.name for f in fields(entry(name).make)} for name in NAMES}

LIKELIHOOD = {"mpo", "v_mpo", "reps", "awr", "ce", "bolt"}
"""These raise the likelihood of what was sampled, whatever the scores."""
GIVEN_BASELINE = {"remax", "a2c", "vapo"}
"""These subtract what they are given, not a mean of scores."""
OPTIMAL_VALUE = {"oapl"}
"""It subtracts the value of the regularised optimum, which is above the mean score."""
WEIGHED_NOW = {"dg", "cispo", "gspo_token", "topr", "vespo", "fipo", "kto"}
"""The weight of log pi depends on the current policy and has no gradient, so a slope of the loss shows another."""
BY_POSITION = {"ppo", "reinforce", "reinforce_pp", "dg", "trpo_penalty", "mdpo"}
"""The baseline is a mean over the batch, not over the group."""
BATCH_WIDE = {
    *BY_POSITION,
    *("gdpo", "mpo", "v_mpo", "reps", "dapo", "cispo", "vespo", "vapo", "grpo_masked", "mt_grpo"),
    *("fipo", "m2po", "lite_ppo", "gpg", "clip_cov", "kl_cov", "kto"),
}
"""A batch-wide mean, sigma, temperature or count of tokens makes a context depend on the others."""
Z_SCORED = sorted(
    {name for name in NAMES if name.startswith(("tpo", "lpo", "gspo", "grpo"))} - {"grpo_passk"}
    | {"group_pg", "dapo", "sapo", "cispo", "gdpo", "mt_grpo", "pmpo", "ce"}
    | {
        "luspo",
        "gmpo",
        "vespo",
        "real",
        "fipo",
        "m2po",
        "lite_ppo",
        "clip_cov",
        "kl_cov",
        "dpo",
        "ipo",
    }
)
LINEAR = ("reinforce", "rloo", "dr_grpo", "ppo", "pg_is")
TARGETS = [name for name in NAMES if name.startswith(("tpo", "lpo"))]
COMPARING = set(GROUPED) - LIKELIHOOD - OPTIMAL_VALUE - {"tpo_no_anchor"}
"""On-policy, without a penalty, these compare candidates and do nothing else."""
WITHOUT_ITS_MEAN = {"real", "opo", "otb", "grpo_passk", "clip_cov"}
"""Pushes that do not cancel within a group: another baseline than the mean, or some candidates are left out."""
few = settings(max_examples=6)


def each(names: Any) -> Any:
    return pytest.mark.parametrize("name", sorted(names))


def reordered(batch: Batch, contexts: Any, candidates: Any) -> Batch:
    """The batch with its contexts, and the candidates of each, in another order."""
    moved = {
        name: x[contexts] if x.ndim == 1 else x[contexts][:, candidates]
        for name, x in batch.fields.items()
    }
    return Batch(moved, batch.new[contexts][:, candidates], batch.rng)


def joined(one: Batch, other: Batch, axis: int = 0) -> Batch:
    """Two batches of one shape as one: more contexts (axis 0), or larger groups (axis 1)."""
    both = {
        name: x if axis and x.ndim == 1 else np.concatenate([x, other.fields[name]], axis)
        for name, x in one.fields.items()
    }
    return Batch(both, np.concatenate([one.new, other.new], axis), one.rng)


@each(NAMES)
@few
@given(batches(masks=True))
def test_numbers_are_finite_and_masked_tokens_have_none(name: str, batch: Batch) -> None:
    loss, c = evaluated(name, batch)
    gone = ~(batch.fields["mask"] & batch.fields["valid"][..., None])
    assert np.isfinite(loss)
    assert np.isfinite(c).all()
    assert (c[gone] == 0).all()


@each(set(NAMES) - WEIGHED_NOW)
@few
@given(batches())
def test_coefficients_are_the_slope_of_the_loss(name: str, batch: Batch) -> None:
    assert_coefficients_are_the_slope(tpo.objective(name), batch)


@each(NAMES)
@few
@given(batches(masks=True))
def test_order_of_contexts_and_candidates_does_not_matter(name: str, batch: Batch) -> None:
    B, K, _ = batch.new.shape
    contexts, candidates = batch.rng.permutation(B), batch.rng.permutation(K)
    loss, c = evaluated(name, batch)
    loss_2, c_2 = evaluated(name, reordered(batch, contexts, candidates))
    close(loss_2, loss)
    close(c_2, c[contexts][:, candidates])


@each(NAMES)
@few
@given(batches(masks=True), st.floats(-1e4, 1e4))
def test_what_a_masked_entry_holds_has_no_influence(name: str, batch: Batch, junk: float) -> None:
    loss, c = evaluated(name, batch)
    filled = {n: np.where(np.isnan(x), junk, x) for n, x in batch.fields.items() if x.dtype != bool}
    new = np.where(np.isnan(batch.new), junk, batch.new)
    loss_2, c_2 = evaluated(name, batch.having(**filled)._replace(new=new))
    assert loss_2 == loss
    assert (c_2 == c).all()


@each(set(NAMES) - {"dr_grpo"})
@few
@given(batches(masks=True))
def test_padding_has_no_influence(name: str, batch: Batch) -> None:
    """Dr. GRPO divides by the longest length, so it has an option for that."""

    def padded(x: np.ndarray) -> np.ndarray:
        return np.concatenate([x, x != x if x.dtype == bool else np.full_like(x, np.nan)], -1)

    wide = {n: padded(x) for n, x in batch.fields.items() if x.ndim == 3}
    loss, c = evaluated(name, batch)
    loss_2, c_2 = evaluated(name, batch.having(**wide)._replace(new=padded(batch.new)))
    close(loss_2, loss)
    close(c_2[..., : c.shape[-1]], c)
    assert not c_2[..., c.shape[-1] :].any()


@each(NAMES)
@few
@given(batches())
def test_a_group_without_a_valid_candidate_has_no_coefficient(name: str, batch: Batch) -> None:
    valid = np.ones(batch.scores.shape, bool)
    valid[0] = False
    loss, c = evaluated(name, batch.having(valid=valid))
    assert np.isfinite(loss)
    assert not c[0].any()
    others = batch.having(valid=valid, scores=np.where(valid, batch.scores, 99.0))
    assert evaluated(name, others)[0] == loss


@each(COMPARING)
@few
@given(batches(), st.floats(-5, 5))
def test_equal_scores_give_no_gradient_on_policy(name: str, batch: Batch, score: float) -> None:
    equal = batch.on_policy().having(scores=np.full(batch.scores.shape, score))
    close(coefficients(name, equal), 0, atol=1e-14)


@each(set(NAMES) - GIVEN_BASELINE - {"ce", "maxrl", "kto"})
@few
@given(batches(), st.floats(-20, 20))
def test_a_constant_added_to_all_scores_has_no_influence(
    name: str, batch: Batch, shift: float
) -> None:
    moved = batch.having(scores=batch.scores + shift)
    close(coefficients(name, moved), coefficients(name, batch), atol=1e-8)


@each(Z_SCORED)
@few
@given(batches(), st.floats(0.05, 20))
def test_the_scale_of_scores_has_no_influence_after_standardising(
    name: str, batch: Batch, scale: float
) -> None:
    scaled = batch.having(scores=batch.scores * scale)
    close(coefficients(name, scaled), coefficients(name, batch))


@each(LINEAR)
@few
@given(batches(), st.floats(0.05, 20))
def test_without_standardising_the_gradient_has_the_scale_of_the_scores(
    name: str, batch: Batch, scale: float
) -> None:
    scaled = batch.having(scores=batch.scores * scale)
    close(coefficients(name, scaled), scale * coefficients(name, batch), atol=1e-8)


@each({*TARGETS, "ce", "group_pg", "rloo", "maxrl", "rebel"})
@few
@given(batches(T=1))
def test_coefficients_of_a_group_sum_to_zero(name: str, batch: Batch) -> None:
    """A shift of all log-scores of a group changes nothing. With one token no log-ratio is far enough to clip."""
    near = batch._replace(new=batch.old + 0.1 * np.tanh(batch.new - batch.old))
    near = near.having(log_probs_rollout=batch.old)
    close(coefficients(name, near).sum(1), 0)


@each(COMPARING - WITHOUT_ITS_MEAN)
@few
@given(batches(T=1))
def test_on_policy_coefficients_of_a_group_sum_to_zero(name: str, batch: Batch) -> None:
    close(coefficients(name, batch.on_policy()).sum(1), 0)


@each(set(NAMES) - BATCH_WIDE)
@few
@given(batches())
def test_a_batch_is_the_mean_of_its_contexts(name: str, batch: Batch) -> None:
    B = len(batch.new)
    loss, c = evaluated(name, batch)
    alone = [evaluated(name, reordered(batch, [b], slice(None))) for b in range(B)]
    close(loss, np.mean([one for one, _ in alone]))
    close(c, np.concatenate([one for _, one in alone]) / B)


@each(NAMES)
@few
@given(batches(masks=True))
def test_a_batch_twice_has_its_loss_and_half_of_each_coefficient(name: str, batch: Batch) -> None:
    loss, c = evaluated(name, batch)
    loss_2, c_2 = evaluated(name, joined(batch, batch))
    close(loss_2, loss, atol=1e-8)
    close(c_2, np.concatenate([c, c]) / 2, atol=1e-8)


@each(set(NAMES) - {"group_pg", "tpo_outcomes", "rloo", "rebel", "gvpo", "real", "grpo_passk"})
@few
@given(batches(masks=True))
def test_every_candidate_twice_halves_each_coefficient(name: str, batch: Batch) -> None:
    """The population sigma of a group does not change. A sum over the group, and K - 1, tell them apart."""
    c = coefficients(name, batch)
    twice = coefficients(name, joined(batch, batch, axis=1))
    close(twice, np.concatenate([c, c], axis=1) / 2, atol=1e-8)


@each(COMPARING - {"pmpo", "real", "grpo_passk", "clip_cov"} | BY_POSITION - {"dg"})
@few
@given(batches(("binary", "levels"), T=1))
def test_a_higher_score_is_pushed_up_more(name: str, batch: Batch) -> None:
    """On-policy, from a uniform policy, the order of the pushes in a group is that of the scores.

    PMPO and REAL have two pushes, pass@k one. DG's gate makes that of a rare failure small; Clip-Cov drops some.
    """
    B, K, _ = batch.new.shape
    uniform = batch.having(log_probs_old=np.full((B, K, 1), -np.log(K))).on_policy()
    push = -coefficients(name, uniform)[..., 0]
    higher = batch.scores[:, :, None] > batch.scores[:, None, :]
    assert ((push[:, :, None] - push[:, None, :])[higher] > 0).all()


@each(COMPARING)
@few
@given(batches(("binary",)))
def test_on_policy_no_success_is_pushed_down_and_no_failure_up(name: str, batch: Batch) -> None:
    push = -coefficients(name, batch.on_policy())
    assert (push[batch.scores == 1] >= 0).all()
    assert (push[batch.scores == 0] <= 0).all()


@each({name for name in NAMES if "sigma_floor" in OPTIONS[name]} - {"gdpo", "tpo_outcomes"})
@few
@given(batches(("continuous",), T=1), st.floats(1e-3, 1.0))
def test_a_floor_below_every_sigma_changes_nothing(name: str, batch: Batch, share: float) -> None:
    least = float(batch.scores.std(-1).min())
    floored = tpo.objective(name, sigma_floor=share * least * 0.999)
    close(coefficients(floored, batch), coefficients(name, batch))


@each(set(NAMES) - {"v_mpo"})
@few
@given(batches(("continuous",)))
def test_float32_gives_the_numbers_of_float64(name: str, batch: Batch) -> None:
    single = {n: x.astype(np.float32) for n, x in batch.fields.items()}
    exact = batch.having(**{n: x.astype(float) for n, x in single.items()})
    new = batch.new.astype(np.float32)
    loss, c = evaluated(name, exact._replace(new=new.astype(float)))
    loss_2, c_2 = evaluated(name, batch.having(**single)._replace(new=new))
    assert c_2.dtype == np.float32
    np.testing.assert_allclose(loss_2, loss, rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(c_2, c, rtol=1e-3, atol=1e-4)

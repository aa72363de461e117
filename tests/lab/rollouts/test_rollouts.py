"""The sampler, the distinct paths, and what each kind of rollout makes a group of."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.position_table import PositionTable
from tpo.lab.policies import Table
from tpo.lab.rollouts import Actor, Rollout, Shape, every, sample
from tpo.lab.rollouts.distinct import distinct
from tpo.lab.tasks import Bandit, Sequences


def test_the_sampler_draws_from_the_policy():
    policy = PositionTable(2, 3, spread=1.0)
    params = policy.init(jax.random.key(0))
    drawn = sample(policy, params, jnp.zeros((4000, 2), int), Shape(3, 2, 2), jax.random.key(1))
    assert drawn.candidates.shape == drawn.log_probs.shape == (4000, 3, 2, 2)
    log_pi = np.asarray(jax.nn.log_softmax(params["logits"]))
    for t in range(2):
        seen = np.asarray(drawn.candidates[:, :, t])
        share = np.bincount(seen.ravel(), minlength=3) / seen.size
        np.testing.assert_allclose(share, np.exp(log_pi[t]), atol=0.012)
        np.testing.assert_allclose(drawn.log_probs[:, :, t], log_pi[t][seen], atol=1e-6)
    pairs = np.asarray(drawn.candidates[:, 0, 0])
    both = np.mean(pairs[:, 0] == pairs[:, 1])  # the W candidates of a prefix are independent
    assert both == pytest.approx(np.sum(np.exp(log_pi[0]) ** 2), abs=0.03)


def test_streams_differ_and_the_key_decides():
    policy = PositionTable(6, 2, spread=0.0)
    params = policy.init(jax.random.key(0))

    def draw(seed):
        return sample(
            policy, params, jnp.zeros((5, 6), int), Shape(4, 6, 1), jax.random.key(seed)
        ).taken

    assert (draw(1) == draw(1)).all()
    assert not (draw(1) == draw(2)).all()
    assert len({row.tobytes() for row in np.asarray(draw(1)).reshape(20, 6)}) > 10


@settings(max_examples=40, deadline=None)
@given(
    b=st.integers(1, 5),
    s=st.integers(1, 4),
    t=st.integers(2, 5),
    v=st.sampled_from([2, 3, 70000]),
    seed=st.integers(0, 10**6),
)
def test_distinct_paths_are_all_paths_once(b, s, t, v, seed):
    rng = np.random.default_rng(seed)
    few = min(v, 3)
    prompts = rng.integers(0, 2, (b, 2)) * (v - 1)
    taken = rng.integers(0, few, (b, s, t)) * (v // few)
    found = distinct(jnp.asarray(prompts), jnp.asarray(taken), v)
    rows = np.concatenate([np.repeat(prompts, s, 0), taken[..., :-1].reshape(b * s, t - 1)], 1)
    assert int(found.size) == len(np.unique(rows, axis=0))
    path = np.asarray(found.path_of)
    assert path.max() == int(found.size) - 1
    np.testing.assert_array_equal(np.asarray(found.paths.tokens)[path], taken[..., :-1])
    owners = np.asarray(found.paths.owner)[path]
    np.testing.assert_array_equal(prompts[owners], np.repeat(prompts[:, None], s, 1))


def test_contexts_that_are_not_tokens_are_never_merged():
    taken = jnp.zeros((3, 4, 2), int)
    assert int(distinct(jnp.zeros((3, 2)), taken, 2).size) == 3
    assert int(distinct(jnp.zeros((3, 2), int), taken, 2).size) == 1
    assert every(taken).size == 12


def batch_of(kind, task, size=4, baseline=None, contexts=5, policy=None):
    rollout = Rollout(kind, size, baseline)
    policy = policy or PositionTable(task.length, task.actions)
    params = policy.init(jax.random.key(0))
    given = task.contexts((), jax.random.key(1), contexts)
    batch = rollout.gather(Actor(policy, params), task, given, jax.random.key(2))
    return batch, given, params


def test_a_sequence_group_scores_the_mean_token_reward():
    task = Sequences(3, 2, reward="sequential")
    batch, contexts, _ = batch_of("sequence", task)
    assert batch.group.log_probs_old.shape == (5, 4, 3)
    correct = np.asarray(batch.candidates[..., 0]) == np.asarray(contexts.answer)[:, None]
    np.testing.assert_allclose(batch.group.scores, np.cumprod(correct, -1).mean(-1), atol=1e-6)
    np.testing.assert_allclose(batch.group.token_scores, np.cumprod(correct, -1))


@pytest.mark.parametrize("reward", ["bag", "sequential"])
def test_a_token_group_scores_each_candidate_at_its_prefix(reward):
    task = Sequences(4, 3, reward=reward)
    batch, contexts, _ = batch_of("token", task)
    assert batch.group.scores.shape == (20, 4)
    taken = np.asarray(batch.candidates[:, 0, :, 0])
    answer = np.asarray(contexts.answer)
    for b in range(5):
        alive = True
        for t in range(4):
            right = np.asarray(batch.candidates[b, 0, t]) == answer[b, t]
            expected = right if reward == "bag" else right & alive
            np.testing.assert_array_equal(batch.group.scores[b * 4 + t], expected)
            alive = alive and taken[b, t] == answer[b, t]
    behaviour = np.asarray(batch.group.scores)[:, 0].reshape(5, 4)
    np.testing.assert_array_equal(batch.rewards[:, 0], behaviour)


def bandit(kind, baseline):
    batch, _, params = batch_of(
        kind, Bandit(10, 3), baseline=baseline, contexts=6, policy=Table(3, 10, spread=1.0)
    )
    return batch, np.asarray(jax.nn.softmax(params["logits"]))[np.arange(6) % 3]


def test_a_vector_scores_the_taken_action_above_its_baseline():
    batch, pi = bandit("vector", "expected")
    assert batch.group.scores.shape == (6, 10)
    taken = np.asarray(sampled(batch, 6))
    for b in range(6):
        expected = np.zeros(10)
        expected[taken[b]] = (taken[b] == 0) - (pi[b] ** 2).sum()
        np.testing.assert_allclose(batch.group.scores[b], expected, atol=1e-6)
    np.testing.assert_allclose(batch.group.log_probs_old[..., 0], np.log(pi), atol=1e-5)


def sampled(batch, n):
    """The taken actions, read off the one-hot score vectors."""
    return np.abs(np.asarray(batch.group.scores)).argmax(-1)[:n]


def test_pooled_is_the_mean_of_vectors_and_signed_their_z_score():
    vector, _ = bandit("vector", 0.5)
    pooled, _ = bandit("pooled", 0.5)
    signed, _ = bandit("signed", 0.5)
    assert pooled.group.scores.shape == (1, 10)
    np.testing.assert_allclose(pooled.group.scores[0], vector.group.scores.mean(0), atol=1e-6)
    # one action out of ten scores, the rest 0: its z-score is ±sqrt(9), the sign that of R - .5
    sign = np.sign(np.asarray(vector.group.scores).sum(-1))
    np.testing.assert_allclose(signed.group.scores[:, 0], 3 * sign, atol=1e-4)


def test_batch_is_one_group_and_oracle_knows_every_reward():
    batch, _ = bandit("batch", None)
    assert batch.group.scores.shape == (1, 6)
    oracle, _ = bandit("oracle", None)
    np.testing.assert_array_equal(oracle.group.scores, np.eye(10)[np.zeros(6, int)])


@pytest.mark.parametrize("kind", ["single", "sequence"])
def test_a_greedy_baseline_is_the_reward_of_the_most_probable_actions(kind):
    task = Sequences(3, 2, reward="bag")
    policy = PositionTable(3, 2, spread=1.0)
    batch, contexts, params = batch_of(kind, task, baseline="greedy", policy=policy)
    most_probable = np.asarray(params["logits"]).argmax(-1)
    expected = (np.asarray(contexts.answer) == most_probable).mean(-1)
    np.testing.assert_allclose(batch.group.baseline, expected, atol=1e-6)
    plain, _, _ = batch_of(kind, task, policy=policy)
    np.testing.assert_array_equal(
        batch.candidates, plain.candidates
    )  # an extra sample, not another
    assert plain.group.baseline is None


def test_a_greedy_baseline_of_one_action():
    batch, pi = bandit("single", "greedy")
    np.testing.assert_array_equal(batch.group.baseline, pi.argmax(-1) == 0)


def test_a_greedy_baseline_needs_whole_episodes():
    with pytest.raises(ValueError, match="baseline is 'greedy', and kind 'token'.*'sequence'"):
        Rollout("token", baseline="greedy")
    with pytest.raises(ValueError, match="baseline is 'worst', expected 'expected', 'greedy'"):
        Rollout(baseline="worst")

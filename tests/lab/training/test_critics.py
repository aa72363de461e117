"""A critic in the lab: pretrained, resumed, divided and batched as the policy is; it changes nothing else."""

import itertools
import json
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from support.chain_walk import ChainTable, ChainWalk
from support.position_table import PositionTable
from tpo.lab.execution.runner import run_cell
from tpo.lab.policies import MLP, Table, Transformer
from tpo.lab.rollouts import Actor, Rollout
from tpo.lab.tasks import Sequences
from tpo.lab.training import (
    Budget,
    Cell,
    Critic,
    Method,
    Optimiser,
    Pace,
    Staleness,
    method,
    run,
)
from tpo.lab.training.episode import Learner
from tpo.lab.training.loop import TrainingRun
from tpo.storage.store import Store

FAST = {"learning_rate": 0.1, "epochs": 4}
"""Options of a critic of a few numbers."""


def cell(name, critic=None, options=(), **changed):
    """A walk along a chain with a table of logits, and a table of values."""
    plain = Cell(
        ChainWalk(),
        Method(name, options, Rollout("single"), 1 if name == "a2c" else 4),
        Budget(32, 6),
        Optimiser("adam", 0.1),
        ChainTable(right=0.0),
        critic=critic,
    )
    return replace(plain, **changed)


def trained(cell, **pace):
    """Curves and the states of the seeds at the end."""
    runner = TrainingRun(cell, Pace(**pace))
    runner.restore(None)
    while runner.episode < cell.budget.episodes:
        runner.advance()
    return runner.curves(), runner.states


@pytest.mark.parametrize(
    ("name", "options", "critic"),
    [
        ("ppo", (("advantage", "gae"),), Critic(lam=0.95, **FAST)),
        ("a2c", (("lam", 0.95),), Critic(lam=0.95, **FAST)),
        ("vapo", (("alpha", 1.0),), Critic("monte_carlo", pretrain=20, **FAST)),
    ],
)
def test_actor_and_critic_learn_to_walk_to_the_end(name, options, critic):
    """Of eight moves the last four can pay, so the lowest error is 1/2; a walk at random has more than .9."""
    curves = run(cell(name, critic, options, budget=Budget(32, 80)))
    error, explained = curves["error"][0], curves["explained_variance"][0]
    assert error[0] > 0.88
    assert error[-5:].mean() < 0.65
    assert abs(explained[0]) < 1e-6  # values are 0 at first
    assert explained[10:40].mean() > 0.3


def test_while_it_is_pretrained_the_policy_is_frozen():
    learner = Learner(cell("vapo", Critic("monte_carlo", pretrain=2, **FAST)), block=8)
    step = jax.jit(learner.episode)
    states, norms = [learner.init(jnp.uint32(0))], []
    for episode in range(3):
        state, metrics = step(states[-1], (), jnp.int32(episode))
        states.append(state)
        norms.append(float(metrics["gradient_norm"]))

    def leaves(state):
        return [np.asarray(x) for x in jax.tree.leaves((state.params, state.optimiser))]

    for state in states[1:3]:
        for a, b in zip(leaves(state), leaves(states[0]), strict=True):
            np.testing.assert_array_equal(a, b)
    assert any((a != b).any() for a, b in zip(leaves(states[3]), leaves(states[0]), strict=True))
    values = [np.asarray(state.critic.params["rows"]) for state in states]
    assert all((a != b).any() for a, b in itertools.pairwise(values))
    assert norms[:2] == [0, 0]
    assert norms[2] > 0


class StopHereError(Exception):
    pass


def test_a_stopped_run_resumes_to_identical_numbers(tmp_path):
    one = cell("vapo", Critic("monte_carlo", pretrain=3, **FAST), budget=Budget(32, 6, seeds=2))
    pace = Pace(chunk=2, save_every=0.0)
    whole, states = trained(one, chunk=2)
    store = Store(tmp_path / "out")

    def stop(progress):
        if progress.episode == 4:
            raise StopHereError

    with pytest.raises(StopHereError):
        run_cell(one, store, stop, pace)
    resumed = TrainingRun(one, pace)
    resumed.restore(store.checkpoint(one.key))
    assert resumed.episode == 4
    resumed.advance()
    for a, b in zip(jax.tree.leaves(resumed.states), jax.tree.leaves(states), strict=True):
        np.testing.assert_array_equal(a, b)
    for name, x in run_cell(one, store, pace=pace).items():
        np.testing.assert_array_equal(x, whole[name], err_msg=name)


def test_a_critic_that_is_not_asked_changes_no_bit_of_the_policy():
    plain = cell("ppo")
    with_critic = replace(plain, critic=Critic(**FAST))
    without, beside = run(plain), run(with_critic)
    assert beside.keys() - without.keys() == {"explained_variance", "value_error"}
    for name, x in without.items():
        np.testing.assert_array_equal(beside[name], x, err_msg=name)
    assert beside["value_error"][0, -1] < beside["value_error"][0, 0]


def test_batched_seeds_and_two_shards_give_the_same_numbers_to_rounding():
    one = cell("ppo", Critic("retrace", **FAST), (("advantage", "gae"),), budget=Budget(32, 3))
    looped, (state,) = trained(one, batched=False, data_parallel_size=1)
    for pace in ({"batched": True}, {"data_parallel_size": 2}):
        curves, (other,) = trained(one, **pace)
        for name in curves.keys() - {"distinct"}:
            np.testing.assert_allclose(
                curves[name], looped[name], rtol=1e-3, atol=1e-5, err_msg=name
            )
        ours, theirs = other.critic.params["rows"], state.critic.params["rows"]
        assert np.abs(theirs).max() > 0.1
        np.testing.assert_allclose(np.squeeze(ours), theirs, rtol=1e-3, atol=1e-4)


def test_targets_correct_for_an_actor_that_lags():
    """log pi - log mu of the learner and the actor that sampled; None without a lag."""
    late = cell("a2c", Critic("vtrace", **FAST), staleness=Staleness(2))
    learner = Learner(late, block=8)
    state, step = learner.init(jnp.uint32(0)), jax.jit(learner.episode)
    for episode in range(3):
        state, _ = step(state, (), jnp.int32(episode))
    mu, _ = learner._actor_params(state, jnp.int32(3), jax.random.key(2))

    @jax.jit
    def judged(state, mu):
        contexts = late.task.contexts((), jax.random.key(1), 4)
        actor = Actor(late.policy, mu)
        batch = late.method.rollout.gather(actor, late.task, contexts, jax.random.key(3))
        prompt = Learner(replace(late, staleness=Staleness()), block=8)
        found = [x._critic.estimates(state.critic, state.params, batch) for x in (learner, prompt)]
        return batch.candidates[:, 0, 0, 0], found

    first, (late_found, prompt_found) = judged(state, mu)
    learners = jax.nn.log_softmax(state.params["rows"][0, 0])
    expected = (learners - jax.nn.log_softmax(mu["rows"][0, 0]))[first]
    assert np.abs(expected).max() > 1e-3
    np.testing.assert_allclose(late_found.log_ratios[:, 0, 0], expected, atol=1e-5)
    assert prompt_found.log_ratios is None


def test_a_reward_that_waits_for_the_end_is_given_at_the_last_token():
    terminal = Cell(
        Sequences(3),
        Method("a2c", rollout=Rollout("single"), epochs=1),
        Budget(64),
        policy=PositionTable(3, 2),
    )
    learner = Learner(terminal, block=64)
    state = learner.init(jnp.uint32(0))

    @jax.jit
    def judged(state):
        contexts = terminal.task.contexts((), jax.random.key(0), 64)
        actor = Actor(terminal.policy, state.params)
        batch = terminal.method.rollout.gather(actor, terminal.task, contexts, jax.random.key(1))
        judged, _, metrics = learner._evaluated_by_critic(state, batch)
        assert judged.group.token_scores is None
        return judged.group.scores, metrics

    scores, metrics = judged(state)
    success = np.asarray(scores).mean()
    assert 0 < success < 1
    # values are 0 at first, and every state's return is the score: its root mean square
    assert float(metrics["value_error"]) == pytest.approx(success**0.5, rel=1e-5)


@pytest.mark.parametrize(
    ("policy", "inputs", "last"),
    [
        (Transformer(3, 2, 2, width=8, layers=1), jnp.zeros((4, 2), int), "head"),
        (MLP(2, 3, (5,)), jnp.ones((4, 2)), "weight1"),
        (Table(4, 3, spread=1.0), jnp.arange(4), "logits"),
    ],
)
@pytest.mark.parametrize("outputs", [1, 3])
def test_a_critic_is_the_policys_network_with_values_that_start_at_0(policy, inputs, last, outputs):
    critic = policy.critic(outputs)
    params, of_policy = (jax.jit(x.init)(jax.random.key(0)) for x in (critic, policy))
    values = critic.prefill(params, inputs)[0]
    assert values.shape == (4, outputs)
    np.testing.assert_array_equal(np.asarray(values), 0)
    assert params.keys() == of_policy.keys()
    assert params[last].shape == (*of_policy[last].shape[:-1], outputs)
    assert not np.asarray(params[last]).any()
    same = [name for name in params if params[name].shape == of_policy[name].shape]
    assert len(same) >= len(params) - 2


def test_the_default_critic_is_the_objectives():
    def of(name, **options):
        return cell(name, options=tuple(options.items())).resolved_critic

    assert of("vapo") == Critic("monte_carlo", pretrain=50)
    assert of("a2c", gamma=0.9, lam=0.8) == Critic("lambda", lam=0.8, gamma=0.9)
    assert of("ppo", advantage="gae") == Critic("lambda", lam=0.95)
    assert of("ppo") is None


def test_a_critic_is_a_part_of_the_key_and_only_where_there_is_one():
    assert "critic" not in cell("ppo").to_json()
    a2c = cell("a2c")
    assert a2c.key == replace(a2c, critic=a2c.resolved_critic).key
    others = [Critic("monte_carlo"), Critic(epochs=1), Critic(pretrain=1), Critic(gamma=0.9)]
    assert len({replace(a2c, critic=one).key for one in [None, *others]}) == 5
    for one in (a2c, replace(a2c, critic=Critic("retrace"))):
        again = Cell.from_json(json.loads(json.dumps(one.to_json())))
        assert again == replace(one, critic=one.resolved_critic)
        assert again.key == one.key


class NoCritic:
    """A policy of one's own without a critic."""


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Critic("sarsa"), "critic: returns is 'sarsa', expected one of 'lambda'"),
        (lambda: Critic(lam=1.5), "critic: lam is 1.5"),
        (lambda: Critic(n=0), "critic: n is 0"),
        (lambda: Critic(epochs=0), "critic: epochs is 0"),
        (lambda: Critic(pretrain=-1), "critic: pretrain is -1"),
        (lambda: cell("a2c", policy=NoCritic()), "NoCritic has no critic"),
        (
            lambda: Cell(Sequences(3, reward="bag"), method("tpo_token", 3), critic=Critic()),
            "kind is 'token', and a critic values the states of whole episodes",
        ),
    ],
)
def test_wrong_values_are_named(make, message):
    with pytest.raises((ValueError, TypeError), match=message):
        make()

"""A tabular critic converges to the exact values of the five-state chain, with every kind of target."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from support.chain_walk import ChainTable, ChainWalk
from tpo.diagnostics import chain
from tpo.lab.critics import Critic, Estimates
from tpo.lab.rollouts import Rollout
from tpo.lab.training import Budget, Cell, Method
from tpo.lab.training.episode import Learner
from tpo.objectives import value_loss

CHAIN = chain()
STEPS, COUNTED = 100, 20
"""Steps of an episode, and those that are fitted: 0.9^80 of a value is lost at the end."""
PI = np.tile([0.3, 0.7], (5, 1))
MU = np.tile([0.6, 0.4], (5, 1))


def loss(table, states, actions, targets):
    values = table[states, actions if table.shape[1] > 1 else 0]
    return value_loss(values[:, :COUNTED], targets[:, :COUNTED])


@jax.jit
def learnt(table, *data):
    return jax.lax.fori_loop(0, 10, lambda _, x: x - 3 * jax.grad(loss)(x, *data), table)


def fitted(critic, policy, actor, updates=40):
    """The table [5, outputs] after updates from fresh episodes of the actor, ten gradient steps each."""
    table = jnp.zeros((5, 2 if critic.per_action else 1))
    rng = np.random.default_rng(0)

    for _ in range(updates):
        batch = CHAIN.rollouts(actor, 400, STEPS, rng)
        states, actions = jnp.asarray(batch.states), jnp.asarray(batch.actions)
        ratios = jnp.log(jnp.asarray((policy / actor)[batch.states, batch.actions], jnp.float32))
        if critic.per_action:
            values = (jnp.asarray(policy, jnp.float32) * table).sum(-1)[states]
            found = Estimates(values, table[states, actions], ratios)
        else:
            found = Estimates(table[states, 0], None, ratios)
        targets = critic.targets(jnp.asarray(batch.rewards, jnp.float32), found)
        table = learnt(table, states, actions, targets)
    return np.asarray(table)


@pytest.mark.parametrize(
    "critic",
    [
        Critic("monte_carlo", gamma=0.9),
        Critic("lambda", lam=0.8, gamma=0.9),
        Critic("n_step", n=3, gamma=0.9),
        Critic("vtrace", gamma=0.9),
    ],
)
def test_on_policy_targets_lead_to_the_exact_values(critic):
    exact = CHAIN.values(PI)
    assert exact.max() - exact.min() > 2
    assert np.abs(fitted(critic, PI, PI)[:, 0] - exact).max() < 0.15


def test_vtrace_leads_to_the_values_of_the_policy_between():
    """Off-policy with ratios capped at 1, it evaluates min(mu, pi), normalised: Espeholt et al., section 4.1."""
    between = np.minimum(PI, MU)
    between /= between.sum(-1, keepdims=True)
    found = fitted(Critic("vtrace", gamma=0.9), PI, MU)[:, 0]
    assert np.abs(found - CHAIN.values(between)).max() < 0.15
    assert np.abs(found - CHAIN.values(MU)).max() > 0.5


def test_retrace_leads_to_the_action_values_of_the_policy_whoever_acts():
    found = fitted(Critic("retrace", lam=1.0, gamma=0.9), PI, MU, updates=60)
    assert np.abs(found - CHAIN.action_values(PI)).max() < 0.15
    assert np.abs(found - CHAIN.action_values(MU)).max() > 0.5


@pytest.mark.parametrize("returns", ["lambda", "retrace"])
def test_in_the_lab_the_critic_of_a_frozen_policy_has_its_exact_values(returns):
    """A critic with a row per step and state, in the lab's own episodes."""
    gamma, episodes = 0.9, 120
    critic = Critic(
        returns, lam=0.9, gamma=gamma, optimiser="sgd", learning_rate=4.0, pretrain=episodes
    )
    method = Method("a2c", (("gamma", gamma),), Rollout("single"), 1)
    cell = Cell(ChainWalk(), method, Budget(256), policy=ChainTable(), critic=critic)
    learner = Learner(cell, block=64)
    state = learner.init(jnp.uint32(0))
    start = np.asarray(state.params["rows"])
    pi = np.asarray(jax.nn.softmax(start))
    step = jax.jit(learner.episode)
    for episode in range(episodes):
        state, metrics = step(state, (), jnp.int32(episode))
    np.testing.assert_array_equal(np.asarray(state.params["rows"]), start)
    rows = np.asarray(state.critic.params["rows"])
    values = (pi * rows).sum(-1) if returns == "retrace" else rows[..., 0]
    often = cell.task.visits(pi) > 0.05
    exact = cell.task.values(pi, gamma)
    assert exact[often].max() > 1.5
    assert np.abs(values - exact)[often].max() < 0.2
    assert float(metrics["explained_variance"]) > 0.3

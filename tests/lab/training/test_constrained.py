"""TRPO's step: within the KL, lower in its loss, along the natural gradient; and it trains a table and an MLP."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax.flatten_util import ravel_pytree

import tpo
from tpo.lab.policies import MLP, Table
from tpo.lab.rollouts import Rollout
from tpo.lab.tasks import Bandit, Sequences
from tpo.lab.training import Budget, Cell, Method, Optimiser, run
from tpo.lab.training.constrained import constrained_step, mean_kl

ARMS = 5


def problem(policy, inputs, seed):
    """A surrogate -mean r·A of sampled actions with random advantages, and the KL of its policy."""
    params = policy.init(jax.random.key(seed))
    of_actions, of_advantages = jax.random.split(jax.random.key(seed + 1))
    n = len(inputs)
    log_pi = jax.nn.log_softmax(policy.prefill(params, inputs)[0])
    actions = jax.random.categorical(of_actions, log_pi)[:, None]
    old = jnp.take_along_axis(log_pi, actions, 1)
    objective = tpo.objective("pg_is", advantage="score")
    scores = jax.random.normal(of_advantages, (n, 1))
    prepared = objective.prepare(tpo.Groups(old[..., None], scores))

    def loss(params):
        new = jax.nn.log_softmax(policy.prefill(params, inputs)[0])
        return objective.loss(jnp.take_along_axis(new, actions, 1)[..., None], prepared)

    return params, loss, mean_kl(policy, inputs)


TABLE = (Table(3, ARMS, spread=1.0), jnp.arange(12) % 3)
NETWORK = (MLP(4, ARMS, (6,)), jax.random.normal(jax.random.key(9), (12, 4)))


def step_of(params, loss, kl, delta):
    update = jax.jit(
        lambda p: constrained_step(delta).update(jax.grad(loss)(p), None, p, loss=loss, kl=kl)[0]
    )
    return update(params)


@pytest.mark.parametrize(("policy", "inputs"), [TABLE, NETWORK], ids=["table", "MLP"])
def test_the_kl_is_within_its_bound_and_the_surrogate_improves(policy, inputs):
    for seed, delta in ((0, 1e-3), (1, 1e-2), (2, 0.3)):
        params, loss, kl = problem(policy, inputs, seed)
        step = step_of(params, loss, kl, delta)
        after = optax.apply_updates(params, step)
        moved = float(kl(params, after))
        assert moved <= delta * 1.01
        assert moved > delta / 20  # as long as the bound allows, up to a few halvings
        assert loss(after) < loss(params)


def test_the_direction_is_the_natural_gradient():
    """For a table F is the mean of diag(pi) - pi·pi^T over contexts; its pseudo-inverse by NumPy."""
    params, loss, kl = problem(*TABLE, 3)
    step = np.asarray(ravel_pytree(step_of(params, loss, kl, 1e-4))[0], np.float64)
    pi = np.asarray(jax.nn.softmax(params["logits"]), np.float64)
    fisher = np.zeros((3 * ARMS, 3 * ARMS))
    for c in range(3):
        part = slice(c * ARMS, (c + 1) * ARMS)
        fisher[part, part] = (np.diag(pi[c]) - np.outer(pi[c], pi[c])) / 3
    g = np.asarray(ravel_pytree(jax.grad(loss)(params))[0], np.float64)
    exact = -np.linalg.pinv(fisher, rcond=1e-6) @ g
    cosine = step @ exact / np.linalg.norm(step) / np.linalg.norm(exact)
    assert cosine > 0.99
    assert step @ -g / np.linalg.norm(step) / np.linalg.norm(g) < 0.98  # not the plain gradient


def test_without_a_gradient_there_is_no_step():
    params, _, kl = problem(*TABLE, 4)
    step = step_of(params, lambda p: 0.0 * p["logits"].sum(), kl, 0.1)
    assert not np.asarray(step["logits"]).any()


def test_it_trains_a_bandit_and_refuses_sequences():
    method = Method("pg_is", (("advantage", "given"),), Rollout("single", baseline="expected"), 1)
    cell = Cell(Bandit(10), method, Budget(50, 40), Optimiser("trpo", 0.02))
    error = run(cell)["error_after"][0]
    assert error[0] > 0.7
    assert error[-1] < 0.2
    with pytest.raises(ValueError, match="optimiser is 'trpo', which is for tasks of one action"):
        replace(cell, task=Sequences(3), method=Method("pg_is", (), Rollout("single"), 1))

"""The metrics of an episode, one number each: the diagnostics of the paper's section 4."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import optax

from tpo import diagnostics
from tpo.lab.policies import Params, Policy
from tpo.lab.rollouts import Actor, Batch, greedy_rewards
from tpo.lab.tasks import Contexts, Task
from tpo.objectives import explained_variance, value_loss
from tpo.objectives.corrections import uncorrected_prepared

Metrics = dict[str, jax.Array]


def of_batch(batch: Batch, prepared: Any) -> Metrics:
    """From the rollouts alone.

    error: 1 - mean reward of the actions taken. success: share of groups with a score above .5.
    zero_variance: share of groups whose scores are all equal. winners, losers: mean weight (the
    target's q, or the absolute advantage) of candidates above and below .5. distinct: paths computed.
    """
    scores = batch.group.total
    shares = diagnostics.group_shares(scores)
    weight = _weight(prepared)
    won = scores > 0.5
    return {
        "error": 1 - batch.rewards.mean(),
        "success": 1 - shares.all_fail,
        "zero_variance": shares.zero_variance,
        "winners": _mean_where(weight, won),
        "losers": _mean_where(weight, ~won),
        "distinct": jnp.asarray(batch.distinct.size, jnp.float32),
    }


def of_critic(values: jax.Array, returns: jax.Array) -> Metrics:
    """How good the critic's values [B, K, T] were for what was obtained from each state, before it saw that.

    explained_variance: the share of the returns' variance. value_error: the root mean square of V - return.
    """
    return {
        "explained_variance": explained_variance(values, returns),
        "value_error": jnp.sqrt(2 * value_loss(values, returns)),
    }


def _weight(prepared: Any) -> jax.Array:
    """[groups, K] q where the objective has a target, else the mean absolute advantage."""
    prepared = uncorrected_prepared(prepared)
    if hasattr(prepared, "q"):
        return prepared.q
    if hasattr(prepared, "advantages"):
        return jnp.abs(prepared.advantages).mean(-1)
    return jnp.full(prepared.log_probs_old.shape[:2], jnp.nan)


def _mean_where(x: jax.Array, where: jax.Array) -> jax.Array:
    return jnp.sum(jnp.where(where, x, 0.0)) / jnp.maximum(where.sum(), 1)


def expected_error(task: Task, policy: Policy, params: Params, contexts: Contexts) -> jax.Array:
    """1 - Σ_a pi(a)·r(a), the mean over contexts; for tasks of one action."""
    return 1 - _right(task, policy, params, contexts).mean()


def misalignment(
    against: str, task: Task, policy: Policy, params: Params, contexts: Contexts, grads: Params
) -> jax.Array:
    """1 - cos between a gradient and that of -p ("pg") or -log p ("ce"), p the chance to be right."""

    def loss(params: Params) -> jax.Array:
        p = _right(task, policy, params, contexts)
        return -(p if against == "pg" else jnp.log(p)).mean()

    exact = jax.grad(loss)(params)
    dot = sum(jax.tree.leaves(jax.tree.map(jnp.vdot, grads, exact)))
    norms = optax.tree.norm(grads) * optax.tree.norm(exact)
    return 1 - dot / jnp.maximum(norms, 1e-30)


def _right(task: Task, policy: Policy, params: Params, contexts: Contexts) -> jax.Array:
    """[B] the probability of a right action."""
    pi = jax.nn.softmax(policy.prefill(params, contexts.inputs)[0])
    actions = jnp.broadcast_to(jnp.arange(pi.shape[-1]), pi.shape)
    right = getattr(task, "right", task.rewards)
    return (pi * right(contexts.answer, actions[..., None])[..., 0]).sum(-1)


def greedy_error(task: Task, policy: Policy, params: Params, contexts: Contexts) -> jax.Array:
    """1 - mean reward of the most probable actions."""
    return 1 - greedy_rewards(Actor(policy, params), task, contexts).mean()

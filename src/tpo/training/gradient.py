"""The gradient of an objective through a policy, each distinct path once.

The first of the paths are differentiated directly, with the prompts; the others in blocks (`blocks.py`), as
many as hold a path. It is the gradient of the plain computation, summed in another order.
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp

from tpo.policies.base import Params, Paths, Policy
from tpo.rollouts import Batch, Rollout
from tpo.training import blocks

Loss = Callable[[jax.Array], jax.Array]
"""From log-probs [groups, K, T] to a scalar."""


def value_and_grad(
    policy: Policy,
    params: Params,
    rollout: Rollout,
    batch: Batch,
    loss: Loss,
    block: int,
    axis: str | None = None,
) -> tuple[jax.Array, Params]:
    """Loss and its gradient by the parameters. block: rows of paths at a time, where seeds run alone.

    axis: the name of the vmapped axis of seeds. Of seeds run together a block is twice their prompts: enough
    for all paths of a sharp policy.
    """
    prompts, (rows, fed) = len(batch.candidates), batch.distinct.paths.tokens.shape
    block = block if axis is None else 2 * prompts
    if fed == 0 or isinstance(batch.distinct.size, int) or rows <= block:
        plain = lambda p: loss(plain_log_probs(policy, p, rollout, batch))  # noqa: E731
        return jax.value_and_grad(plain)(params)
    paths, size = batch.distinct.paths, batch.distinct.size
    directly = jax.tree.map(lambda x: x[:block], paths)
    others = _blocks(jax.tree.map(lambda x: x[block:], paths), block)
    wanted = -(-size // block) - 1

    def value(params: Params) -> jax.Array:
        first, rest, state = policy.together(params, batch.inputs, directly)
        work = blocks.Work(policy, rest.shape[-1], axis)
        later = blocks.extend(work, params, state, others, wanted)
        rest = jnp.concatenate([rest, later.reshape(-1, *rest.shape[1:])])
        return loss(rollout.log_probs(first, rest, batch))

    return jax.value_and_grad(value)(params)


def plain_log_probs(policy: Policy, params: Params, rollout: Rollout, batch: Batch) -> jax.Array:
    """[groups, K, T] of the batch's candidates, all paths at once."""
    if batch.distinct.paths.tokens.shape[1] == 0:
        return rollout.log_probs(policy.prefill(params, batch.inputs)[0], None, batch)
    first, rest, _ = policy.together(params, batch.inputs, batch.distinct.paths)
    return rollout.log_probs(first, rest, batch)


def _blocks(paths: Paths, rows: int) -> Paths:
    """[N, rows, ...]; what is filled up is never read."""

    def cut(x: jax.Array) -> jax.Array:
        x = jnp.pad(x, [(0, -len(x) % rows)] + [(0, 0)] * (x.ndim - 1))
        return x.reshape(-1, rows, *x.shape[1:])

    return jax.tree.map(cut, paths)

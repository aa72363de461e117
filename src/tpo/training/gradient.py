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

    axis: the name of the vmapped axis of seeds. Seeds run together take twice the prompts directly, enough for
    a sharp policy, and blocks of as many paths as there are prompts.
    """
    prompts, (rows, fed) = len(batch.candidates), batch.distinct.paths.tokens.shape
    direct = block if axis is None else 2 * prompts
    if fed == 0 or isinstance(batch.distinct.size, int) or rows <= direct:
        return jax.value_and_grad(lambda p: loss(plain_log_probs(policy, p, rollout, batch)))(
            params
        )
    paths, size = batch.distinct.paths, batch.distinct.size
    block = block if axis is None else prompts
    others = _blocks(paths, direct, block)
    wanted = jnp.maximum(0, -(-(size - direct) // block))

    def value(params: Params) -> jax.Array:
        first, rest, state = policy.together(params, batch.inputs, _part(paths, 0, direct))
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


def _part(paths: Paths, start: int, stop: int | None) -> Paths:
    return jax.tree.map(lambda x: x[start:stop], paths)


def _blocks(paths: Paths, start: int, rows: int) -> Paths:
    """Paths from `start` on as [N, rows, ...]; what is filled up is never read."""

    def cut(x: jax.Array) -> jax.Array:
        x = x[start:]
        x = jnp.pad(x, [(0, -len(x) % rows)] + [(0, 0)] * (x.ndim - 1))
        return x.reshape(-1, rows, *x.shape[1:])

    return jax.tree.map(cut, paths)

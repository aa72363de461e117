"""Logits along many paths, computed in blocks; only blocks that contain distinct paths are run.

The forward pass saves no activations. The backward pass runs each block again and differentiates it.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree

from tpo.lab.policies.base import Params, Paths, Policy


@partial(jax.custom_vjp, nondiff_argnums=(0, 1))
def extend(
    policy: Policy, actions: int, params: Params, state: Any, paths: Paths, blocks: jax.Array
) -> jax.Array:
    """`policy.extend` of paths [N, R, T-1], to logits [N, R, T-1, V]; only the first `blocks` of N are run.

    actions: V. Logits of the other blocks are zero.
    """

    def body(i: jax.Array, logits: jax.Array) -> jax.Array:
        found = policy.extend(params, state, _block(paths, i))
        return jax.lax.dynamic_update_index_in_dim(logits, found, i, axis=0)

    return jax.lax.fori_loop(0, blocks, body, jnp.zeros((*paths.tokens.shape, actions)))


def _forward(
    policy: Policy, actions: int, params: Params, state: Any, paths: Paths, blocks: jax.Array
) -> tuple[jax.Array, Any]:
    logits = extend(policy, actions, params, state, paths, blocks)
    return logits, (params, state, paths, blocks)


def _backward(policy: Policy, actions: int, saved: Any, d_logits: jax.Array) -> Any:
    """The gradient by parameters and state; parameters are summed as one vector, in one kernel."""
    params, state, paths, blocks = saved
    flat, restored = ravel_pytree(params)

    def body(i: jax.Array, sums: Any) -> Any:
        block, d_block = _block((paths, d_logits), i)
        _, pull = jax.vjp(lambda p, s: policy.extend(p, s, block), params, state)
        d_params, d_state = pull(d_block)
        return jax.tree.map(jnp.add, sums, (ravel_pytree(d_params)[0], d_state))

    zeros = jax.tree.map(jnp.zeros_like, (flat, state))
    d_flat, d_state = jax.lax.fori_loop(0, blocks, body, zeros)
    return restored(d_flat), d_state, None, None


extend.defvjp(_forward, _backward)


def _block(x: Any, i: jax.Array) -> Any:
    return jax.tree.map(lambda x: jax.lax.dynamic_index_in_dim(x, i, keepdims=False), x)

"""The gradient of an objective through a policy, over blocks of distinct paths.

A block is as many tokens as the caches of a processor hold well. The first block is differentiated
directly; the others are run forward, and once the objective has said how its loss depends on every
logit, run again and pulled back. The number of blocks is that of the paths that differ, which falls
as the policy sharpens. It is the gradient of the plain computation, summed in another order.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from tpo.policies.base import Params, Paths, Policy
from tpo.rollouts import Batch, Rollout

Loss = Callable[[jax.Array], jax.Array]
"""From log-probs [groups, K, T] to a scalar."""


def plain_log_probs(policy: Policy, params: Params, rollout: Rollout, batch: Batch) -> jax.Array:
    """[groups, K, T] of the batch's candidates, all paths at once."""
    if batch.distinct.paths.tokens.shape[1] == 0:
        return rollout.log_probs(policy.prefill(params, batch.inputs)[0], None, batch)
    first, rest, _ = policy.together(params, batch.inputs, batch.distinct.paths)
    return rollout.log_probs(first, rest, batch)


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

    axis: the name of the vmapped axis of seeds. Seeds run together share one choice: the smallest of
    `sizes` that holds every distinct path of every seed, at once.
    """
    problem = Problem(policy, rollout, batch, loss)
    rows, fed = batch.distinct.paths.tokens.shape
    if fed == 0 or isinstance(batch.distinct.size, int):
        return problem.at_once(params, rows)
    if axis is None:
        return problem.at_once(params, rows) if rows <= block else problem.by_blocks(params, block)
    choices = sizes(len(batch.candidates), rows)
    most = _largest(batch.distinct.size, axis)
    wanted = sum((most > size).astype(jnp.int32) for size in choices[:-1])
    return jax.lax.switch(wanted, [partial(problem.at_once, params, size) for size in choices])


def sizes(prompts: int, rows: int) -> list[int]:
    """Numbers of paths to make a gradient for: twice the prompts, enough for a sharp policy, to all."""
    found = [min(2 * prompts, rows)]
    while 2 * found[-1] <= rows:
        found.append(min(4 * found[-1], rows))
    return [*found[:-1], rows]


class Problem(NamedTuple):
    """One batch and its loss, to be differentiated at some parameters."""

    policy: Policy
    rollout: Rollout
    batch: Batch
    loss: Loss

    def at_once(self, params: Params, rows: int) -> tuple[jax.Array, Params]:
        """Straight through the first `rows` paths, which hold all that are distinct."""
        paths = jax.tree.map(lambda x: x[:rows], self.batch.distinct.paths)
        batch = self.batch._replace(distinct=self.batch.distinct._replace(paths=paths))
        return jax.value_and_grad(
            lambda p: self.loss(plain_log_probs(self.policy, p, self.rollout, batch))
        )(params)

    def by_blocks(self, params: Params, block: int) -> tuple[jax.Array, Params]:
        """Block by block, as many as the distinct paths fill."""
        policy, rollout, batch, loss = self
        paths = _padded(batch.distinct.paths, block)
        blocks = -(-batch.distinct.size // block)

        def cut(x: Any, i: Any) -> Any:
            return jax.tree.map(lambda x: jax.lax.dynamic_slice_in_dim(x, i * block, block), x)

        def write(i: Any, rest: jax.Array) -> jax.Array:
            logits = policy.extend(params, state, cut(paths, i))
            return jax.lax.dynamic_update_slice_in_dim(rest, logits, i * block, axis=0)

        def accumulate(i: Any, sums: Any) -> Any:
            _, pull = jax.vjp(lambda p, s: policy.extend(p, s, cut(paths, i)), params, state)
            return jax.tree.map(jnp.add, sums, pull(cut(d_rest, i)))

        (first, rest_0, state), pull_0 = jax.vjp(
            lambda p: policy.together(p, batch.inputs, cut(paths, 0)), params
        )
        rest = jnp.zeros((len(paths.tokens), *rest_0.shape[1:])).at[:block].set(rest_0)
        rest = jax.lax.fori_loop(1, blocks, write, rest)
        value, (d_first, d_rest) = jax.value_and_grad(
            lambda first, rest: loss(rollout.log_probs(first, rest, batch)), argnums=(0, 1)
        )(first, rest)
        zeros = jax.tree.map(jnp.zeros_like, (params, state))
        d_params, d_state = jax.lax.fori_loop(1, blocks, accumulate, zeros)
        direct = pull_0((d_first, d_rest[:block], d_state))[0]
        return value, jax.tree.map(jnp.add, d_params, direct)


def _largest(size: Any, axis: str) -> jax.Array:
    """The most of any seed: one choice for all of them."""
    return jax.lax.pmax(size, axis)  # type: ignore[no-untyped-call]


def _padded(paths: Paths, block: int) -> Paths:
    """Rows up to a multiple of the block; what is added is never read."""
    extra = -len(paths.tokens) % block
    return jax.tree.map(lambda x: jnp.pad(x, [(0, extra)] + [(0, 0)] * (x.ndim - 1)), paths)

"""The gradient of an objective through a policy, each distinct path once.

A seed alone takes its paths in blocks, as many as hold one; seeds run together take as many paths as the most
diverse of them has. It is the gradient of the plain computation, summed in another order.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp

from tpo.lab.policies.base import Params, Paths, Policy
from tpo.lab.rollouts import Batch, Rollout
from tpo.lab.training.path_logits import extend

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
    most = jax.lax.pmax(batch.distinct.size, axis)  # type: ignore[no-untyped-call]
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
        paths = _first(self.batch.distinct.paths, rows)
        batch = self.batch._replace(distinct=self.batch.distinct._replace(paths=paths))
        return jax.value_and_grad(
            lambda p: self.loss(plain_log_probs(self.policy, p, self.rollout, batch))
        )(params)

    def by_blocks(self, params: Params, rows: int) -> tuple[jax.Array, Params]:
        """The first block directly, with the prompts, then as many as the distinct paths fill."""
        policy, rollout, batch, loss = self
        paths, size = batch.distinct.paths, batch.distinct.size
        others = jax.tree.map(lambda x: _cut(x[rows:], rows), paths)

        def value(params: Params) -> jax.Array:
            first, rest, state = policy.together(params, batch.inputs, _first(paths, rows))
            blocks = -(-size // rows) - 1
            later = extend(policy, rest.shape[-1], params, state, others, blocks)
            rest = jnp.concatenate([rest, later.reshape(-1, *rest.shape[1:])])
            return loss(rollout.log_probs(first, rest, batch))

        return jax.value_and_grad(value)(params)


def plain_log_probs(policy: Policy, params: Params, rollout: Rollout, batch: Batch) -> jax.Array:
    """[groups, K, T] of the batch's candidates, all paths at once."""
    if batch.distinct.paths.tokens.shape[1] == 0:
        return rollout.log_probs(policy.prefill(params, batch.inputs)[0], None, batch)
    first, rest, _ = policy.together(params, batch.inputs, batch.distinct.paths)
    return rollout.log_probs(first, rest, batch)


def _first(paths: Paths, rows: int) -> Paths:
    return jax.tree.map(lambda x: x[:rows], paths)


def _cut(x: jax.Array, rows: int) -> jax.Array:
    """[N, rows, ...]; what is filled up is never read."""
    x = jnp.pad(x, [(0, -len(x) % rows)] + [(0, 0)] * (x.ndim - 1))
    return x.reshape(-1, rows, *x.shape[1:])

"""The gradient of an objective through a policy, with each distinct path computed once.

If seeds are looped, the distinct paths are computed in blocks. If seeds are batched, all compute as many paths
as the seed with the most distinct ones needs. The result is the plain gradient, summed in another order.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp

from tpo.lab.policies.base import Params, Paths, Policy
from tpo.lab.rollouts import Batch
from tpo.lab.training.path_logits import extend

Loss = Callable[[jax.Array], jax.Array]
"""From what is read of a network, such as log-probs [groups, K, T], to a scalar."""
Read = Callable[[jax.Array, jax.Array | None, Batch], jax.Array]
"""From outputs at the first prefixes [B, V] and along paths [N, T-1, V] to what the loss takes,
such as `Rollout.log_probs`."""


def value_and_grad(
    problem: BatchLoss, params: Params, block: int, axis: str | None = None
) -> tuple[jax.Array, Params]:
    """Loss and its gradient by the parameters. block: rows of paths at a time, if seeds are looped.

    axis: the name of the vmapped axis of seeds. Batched seeds take one number of paths: the smallest of
    `sizes` that holds every distinct path of every seed.
    """
    batch = problem.batch
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
    """Numbers of paths to compile for: from twice the prompts, enough for a sharp policy, to all."""
    found = [min(2 * prompts, rows)]
    while 2 * found[-1] <= rows:
        found.append(min(4 * found[-1], rows))
    return [*found[:-1], rows]


class BatchLoss(NamedTuple):
    """One batch and its loss, as a function of the parameters."""

    policy: Policy
    read: Read
    batch: Batch
    loss: Loss

    def at_once(self, params: Params, rows: int) -> tuple[jax.Array, Params]:
        """The gradient through the first `rows` paths at once; they hold all distinct ones."""
        paths = _first(self.batch.distinct.paths, rows)
        batch = self.batch._replace(distinct=self.batch.distinct._replace(paths=paths))
        return jax.value_and_grad(lambda p: self.loss(evaluated(self.policy, p, self.read, batch)))(
            params
        )

    def by_blocks(self, params: Params, rows: int) -> tuple[jax.Array, Params]:
        """The first block directly, with the prompts, then as many as the distinct paths fill."""
        policy, read, batch, loss = self
        paths, size = batch.distinct.paths, batch.distinct.size
        others = jax.tree.map(lambda x: _blocks(x[rows:], rows), paths)

        def value(params: Params) -> jax.Array:
            first, rest, state = policy.together(params, batch.inputs, _first(paths, rows))
            blocks = -(-size // rows) - 1
            later = extend(policy, rest.shape[-1], params, state, others, blocks)
            rest = jnp.concatenate([rest, later.reshape(-1, *rest.shape[1:])])
            return loss(read(first, rest, batch))

        return jax.value_and_grad(value)(params)


def evaluated(policy: Policy, params: Params, read: Read, batch: Batch) -> jax.Array:
    """What `read` makes of the network's outputs on the batch, all paths at once."""
    if batch.distinct.paths.tokens.shape[1] == 0:
        return read(policy.prefill(params, batch.inputs)[0], None, batch)
    first, rest, _ = policy.together(params, batch.inputs, batch.distinct.paths)
    return read(first, rest, batch)


def _first(paths: Paths, rows: int) -> Paths:
    return jax.tree.map(lambda x: x[:rows], paths)


def _blocks(x: jax.Array, rows: int) -> jax.Array:
    """[N, rows, ...]; the padding is never read."""
    x = jnp.pad(x, [(0, -len(x) % rows)] + [(0, 0)] * (x.ndim - 1))
    return x.reshape(-1, rows, *x.shape[1:])

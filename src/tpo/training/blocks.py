"""Logits along many paths, block by block: as many blocks as hold a path, which falls as a policy sharpens.

Blocks are run forward, and once the loss has said how it depends on every logit, run again and pulled back. A
seed alone walks through its own blocks. Seeds run together put theirs on one list and take from it as many at
a time as there are seeds: the work is the sum of what they need, whichever of them is still exploring.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree

from tpo.policies.base import Params, Paths, Policy


class Work(NamedTuple):
    """Whose blocks these are, and how many logits each token of theirs gets; static."""

    policy: Policy
    actions: int
    axis: str | None
    """The name of the vmapped axis of seeds, if any."""


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def extend(work: Work, params: Params, state: Any, paths: Paths, blocks: jax.Array) -> jax.Array:
    """`policy.extend` of paths [N, R, T-1], of which the first `blocks` of N hold any: [N, R, T-1, V].

    Logits of the others are zero.
    """
    walk = _walk(work.axis, blocks)
    packed, unpacked = walk.pack((params, state))
    known, paths = walk.shared(packed), walk.shared(paths)

    def logits_of(known: Any, paths: Paths) -> jax.Array:
        params, state = unpacked(known)
        return work.policy.extend(params, state, paths)

    def turn(i: jax.Array, logits: jax.Array) -> jax.Array:
        found = walk.each(logits_of)(walk.owners(known, i), walk.blocks(paths, i))
        return walk.put(logits, i, found)

    start = jnp.zeros((*paths.tokens.shape, work.actions))
    return walk.own(jax.lax.fori_loop(0, walk.turns, turn, start))


def _forward(
    work: Work, params: Params, state: Any, paths: Paths, blocks: jax.Array
) -> tuple[jax.Array, Any]:
    return extend(work, params, state, paths, blocks), (params, state, paths, blocks)


def _backward(work: Work, saved: Any, d_logits: jax.Array) -> Any:
    params, state, paths, blocks = saved
    walk = _walk(work.axis, blocks)
    packed, unpacked = walk.pack((params, state))
    known, paths, d_logits = (walk.shared(x) for x in (packed, paths, d_logits))

    def pulled(known: Any, paths: Paths, d_logits: jax.Array) -> Any:
        _, pull = jax.vjp(lambda p, s: work.policy.extend(p, s, paths), *unpacked(known))
        return walk.pack(pull(d_logits))[0]

    def turn(i: jax.Array, sums: Any) -> Any:
        found = walk.each(pulled)(walk.owners(known, i), *walk.blocks((paths, d_logits), i))
        return walk.add(sums, i, found)

    sums = jax.lax.fori_loop(0, walk.turns, turn, jax.tree.map(jnp.zeros_like, known))
    return *unpacked(walk.own(sums)), None, None


extend.defvjp(_forward, _backward)


class Walk(Protocol):
    """A way through the blocks that hold a path, in turns."""

    @property
    def turns(self) -> Any:
        """How many."""
        ...

    def pack(self, x: Any) -> tuple[Any, Callable[[Any], Any]]:
        """x, a tree of arrays, as turns handle it best, and how to get it back."""
        ...

    def shared(self, x: Any) -> Any:
        """What all turns can see of x, a tree of this seed's arrays."""
        ...

    def own(self, x: Any) -> Any:
        """This seed's part of what is shared."""
        ...

    def each(self, f: Callable[..., Any]) -> Callable[..., Any]:
        """f of one block, made a function of what one turn takes."""
        ...

    def owners(self, x: Any, i: jax.Array) -> Any:
        """What turn i needs of x, an entry per seed."""
        ...

    def blocks(self, x: Any, i: jax.Array) -> Any:
        """What turn i needs of x, an entry per block."""
        ...

    def put(self, x: jax.Array, i: jax.Array, found: jax.Array) -> jax.Array:
        """x with turn i's blocks filled in."""
        ...

    def add(self, sums: Any, i: jax.Array, found: Any) -> Any:
        """Sums per seed with turn i's added."""
        ...


def _walk(axis: str | None, blocks: jax.Array) -> Walk:
    if axis is None:
        return Alone(blocks)
    return Together(axis, jax.lax.all_gather(blocks, axis))


class Alone(NamedTuple):
    """One seed: turn i is block i."""

    turns: Any

    def pack(self, x: Any) -> tuple[Any, Callable[[Any], Any]]:
        params, state = x
        flat, unflat = ravel_pytree(params)
        return (flat, state), lambda x: (unflat(x[0]), x[1])

    def shared(self, x: Any) -> Any:
        return x

    def own(self, x: Any) -> Any:
        return x

    def each(self, f: Callable[..., Any]) -> Callable[..., Any]:
        return f

    def owners(self, x: Any, i: jax.Array) -> Any:
        return x

    def blocks(self, x: Any, i: jax.Array) -> Any:
        return jax.tree.map(lambda x: jax.lax.dynamic_index_in_dim(x, i, keepdims=False), x)

    def put(self, x: jax.Array, i: jax.Array, found: jax.Array) -> jax.Array:
        return jax.lax.dynamic_update_index_in_dim(x, found, i, axis=0)

    def add(self, sums: Any, i: jax.Array, found: Any) -> Any:
        return jax.tree.map(jnp.add, sums, found)


class Together(NamedTuple):
    """S seeds: a turn is the next S blocks of the list of all that hold a path, in the order of seeds."""

    axis: str
    wanted: jax.Array
    """[S] blocks that hold a path."""

    @property
    def turns(self) -> Any:
        return -(-self.wanted.sum() // len(self.wanted))

    def pack(self, x: Any) -> tuple[Any, Callable[[Any], Any]]:
        return ravel_pytree(x)

    def shared(self, x: Any) -> Any:
        return jax.tree.map(lambda x: jax.lax.all_gather(x, self.axis), x)

    def own(self, x: Any) -> Any:
        return jax.tree.map(lambda x: x[jax.lax.axis_index(self.axis)], x)

    def each(self, f: Callable[..., Any]) -> Callable[..., Any]:
        return jax.vmap(f)

    def _places(self, i: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
        """Of turn i: the seed and the block of each place, and whether there is work for it."""
        ends = jnp.cumsum(self.wanted)
        place = i * len(ends) + jnp.arange(len(ends))
        seed = jnp.minimum((place[:, None] >= ends).sum(1), len(ends) - 1)
        return seed, place - (ends - self.wanted)[seed], place < ends[-1]

    def owners(self, x: Any, i: jax.Array) -> Any:
        return x[self._places(i)[0]]

    def blocks(self, x: Any, i: jax.Array) -> Any:
        seed, block, _ = self._places(i)
        return jax.tree.map(lambda x: x.at[seed, block].get(mode="clip"), x)

    def put(self, x: jax.Array, i: jax.Array, found: jax.Array) -> jax.Array:
        seed, block, busy = self._places(i)
        beyond = x.shape[1] + jnp.arange(len(seed))
        target = x.at[seed, jnp.where(busy, block, beyond)]
        return target.set(found, mode="drop", unique_indices=True)

    def add(self, sums: Any, i: jax.Array, found: Any) -> Any:
        seed, _, busy = self._places(i)
        of_seed = (jnp.arange(len(seed))[:, None] == seed) & busy
        return sums + jnp.dot(of_seed.astype(found.dtype), found, precision="highest")

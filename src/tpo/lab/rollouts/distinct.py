"""The distinct paths of a batch: a continuation that a group repeats is computed once."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from tpo.lab.policies.base import Paths
from tpo.lab.policies.layers import rows


class Distinct(NamedTuple):
    """The distinct paths of a batch, and the path of each stream."""

    paths: Paths
    """[N, T-1] and [N]; the first `size` are distinct, the rest is padding."""
    path_of: jax.Array
    """[B, S] the path of each stream."""
    size: jax.Array | int
    """The number of distinct paths; a plain int if every stream has a path of its own."""

    def of_streams(self, x: jax.Array) -> jax.Array:
        """[B, S, ...] for each stream the row of x [N, ...] that belongs to its path."""
        if isinstance(self.size, int):
            return x.reshape(*self.path_of.shape, *x.shape[1:])
        return rows(x, self.path_of)


def every(taken: jax.Array) -> Distinct:
    """One path per stream, repeated or not: taken [B, S, T]."""
    b, s, t = taken.shape
    owner = None if s == 1 else jnp.repeat(jnp.arange(b), s)
    paths = Paths(taken[..., : t - 1].reshape(b * s, t - 1), owner)
    return Distinct(paths, jnp.arange(b * s).reshape(b, s), b * s)


def distinct(inputs: Any, taken: jax.Array, vocab: int) -> Distinct:
    """The distinct paths of the whole batch: taken [B, S, T] actions below `vocab`.

    The last action is predicted but never fed, so paths that differ only there are equal. Paths of equal token
    prompts are merged; contexts with other inputs are not. Paths are sorted by their tokens, so their order
    depends on nothing else.
    """
    b, s, t = taken.shape
    paths = taken[..., : t - 1].reshape(b * s, t - 1)
    words = [*_identity(inputs, b, s, vocab), *_words(paths, vocab)]
    *words, order = jax.lax.sort([*words, jnp.arange(b * s)], num_keys=len(words))
    differs = [jnp.concatenate([jnp.zeros(1, bool), word[1:] != word[:-1]]) for word in words]
    rank = jnp.cumsum(jnp.stack(differs).any(0))
    index = jnp.zeros(b * s, jnp.int32).at[order].set(rank)
    first = jnp.full(b * s, b * s - 1, jnp.int32).at[rank].min(order)
    return Distinct(Paths(paths[first], first // s), index.reshape(b, s), rank[-1] + 1)


def _identity(inputs: Any, b: int, s: int, vocab: int) -> list[jax.Array]:
    """Words [B*S] that are equal exactly where the contexts are."""
    if isinstance(inputs, jax.Array) and inputs.ndim == 2 and inputs.dtype.kind == "i":
        return _words(jnp.repeat(inputs, s, axis=0), vocab)
    return [jnp.repeat(jnp.arange(b), s)]


def _words(tokens: jax.Array, vocab: int) -> list[jax.Array]:
    """Columns [N, n] of tokens packed into as few exact 31-bit words [N] as they need."""
    base = max(vocab, 2)
    per_word = max(1, math.floor(31 / math.log2(base)))
    words = []
    for start in range(0, tokens.shape[1], per_word):
        columns = tokens[:, start : start + per_word]
        weights = base ** jnp.arange(columns.shape[1], dtype=jnp.int32)
        words.append((columns * weights).sum(1))
    return words

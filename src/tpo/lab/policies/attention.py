"""Attention over a few dozen positions, laid out as batches of small matrix products."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from tpo.lab.policies.layers import row_major

MASKED = -1e30
"""Score of a position that must not be seen: its weight is exactly 0 and its gradient too."""


def causal_mask(queries: int, keys: int) -> jax.Array:
    """[queries, keys] bool: the last query sees every key, each earlier query one key less."""
    return jnp.arange(keys) <= jnp.arange(queries)[:, None] + (keys - queries)


@jax.custom_vjp
def attend(query: jax.Array, keys_values: jax.Array) -> jax.Array:
    """softmax(q k / sqrt(d_head)) v, causal: the last query sees every key. [R, Q, heads, d_head].

    query: [R, Q, heads, d_head], keys_values: [R, N, 2, heads, d_head]. Heads are moved
    into the batch axis before the products. The gradient is written by hand with row-major products, which on a
    CPU saves a third of its time.
    """
    return _attend_fwd(query, keys_values)[0]


def _attend_fwd(query: jax.Array, keys_values: jax.Array) -> tuple[jax.Array, Any]:
    heads = query.shape[2]
    q = by_head(query * query.shape[3] ** -0.5)
    k, v = by_head(keys_values[:, :, 0]), by_head(keys_values[:, :, 1])
    scores = jnp.where(causal_mask(q.shape[1], k.shape[1]), q @ k.mT, MASKED)
    weights = jax.nn.softmax(scores, axis=-1)
    return by_row(weights @ v, heads), (q, k, v, weights)


def _attend_bwd(saved: Any, dy: jax.Array) -> tuple[jax.Array, jax.Array]:
    q, k, v, weights = saved
    heads = dy.shape[2]
    dy = by_head(dy)
    d_weights = dy @ v.mT
    d_scores = weights * (d_weights - (d_weights * weights).sum(-1, keepdims=True))
    d_query = by_row(d_scores @ k, heads) * q.shape[-1] ** -0.5
    dk, dv = row_major(d_scores.mT) @ q, row_major(weights.mT) @ dy
    return d_query, jnp.stack([by_row(dk, heads), by_row(dv, heads)], axis=2)


attend.defvjp(_attend_fwd, _attend_bwd)


@jax.custom_vjp
def split(qkv: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Query [..., heads, d_head] and keys_values [..., 2, heads, d_head] of [..., 3, heads, d_head]."""
    return qkv[..., 0, :, :], qkv[..., 1:, :, :]


def _split_fwd(qkv: jax.Array) -> tuple[tuple[jax.Array, jax.Array], None]:
    return split(qkv), None


def _split_bwd(_: None, d: tuple[jax.Array, jax.Array]) -> tuple[jax.Array]:
    return (jnp.concatenate([d[0][..., None, :, :], d[1]], axis=-3),)


split.defvjp(_split_fwd, _split_bwd)


def by_head(x: jax.Array) -> jax.Array:
    """[R, N, heads, d_head] -> [R*heads, N, d_head]"""
    return x.swapaxes(1, 2).reshape(-1, x.shape[1], x.shape[3])


def by_row(x: jax.Array, heads: int) -> jax.Array:
    """[R*heads, N, d_head] -> [R, N, heads, d_head]"""
    return x.reshape(-1, heads, *x.shape[1:]).swapaxes(1, 2)


def attend_step(query: jax.Array, prompt: jax.Array, own: jax.Array, seen: jax.Array) -> jax.Array:
    """One query per stream over its prompt and its own past, [B, S, heads, d_head].

    query: [B, S, heads, d_head], prompt: [2, B, heads, H, d_head] shared by the S streams,
    own: [2, B, S, heads, T-1, d_head], seen: [T-1] bool, True for the tokens generated so far.
    """
    query = query * query.shape[-1] ** -0.5
    over_prompt = (query.swapaxes(1, 2) @ prompt[0].mT).swapaxes(1, 2)
    over_own = jnp.where(seen, (query[..., None, :] @ own[0].mT)[..., 0, :], MASKED)
    most = jnp.maximum(over_prompt.max(-1, keepdims=True), over_own.max(-1, keepdims=True))
    over_prompt, over_own = jnp.exp(over_prompt - most), jnp.exp(over_own - most)
    total = over_prompt.sum(-1, keepdims=True) + over_own.sum(-1, keepdims=True)
    from_prompt = (over_prompt.swapaxes(1, 2) @ prompt[1]).swapaxes(1, 2)
    return (from_prompt + (over_own[..., None, :] @ own[1])[..., 0, :]) / total

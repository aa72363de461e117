"""The few neural layers the policies share: plain functions of arrays, no neural library."""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp

TRUNCATED_STD = 0.87962566103423978
"""Standard deviation of a unit normal truncated at two sigma; dividing by it restores variance 1."""


def lecun_normal(key: jax.Array, shape: tuple[int, ...], fan_in: int) -> jax.Array:
    """N(0, 1/fan_in) truncated at two sigma: the usual initialisation of a linear map."""
    scale = fan_in**-0.5 / TRUNCATED_STD
    return scale * jax.random.truncated_normal(key, -2.0, 2.0, shape)


def row_major(x: jax.Array) -> jax.Array:
    """x, a transposed array; on a CPU copied to row-major memory, which XLA's fast product there needs."""
    if jax.default_backend() != "cpu":
        return x
    found: jax.Array = jax.lax.optimization_barrier(x)  # type: ignore[no-untyped-call]
    return found


PART_ROWS = 1024
"""Rows that one part of a weight's gradient sums, on an accelerator."""


@jax.custom_vjp
def linear(x: jax.Array, weight: jax.Array, bias: jax.Array) -> jax.Array:
    """x W + b over the last axis."""
    return x @ weight + bias


def _linear_fwd(x: jax.Array, weight: jax.Array, bias: jax.Array) -> tuple[jax.Array, Any]:
    return x @ weight + bias, (x, weight)


def _linear_bwd(saved: Any, dy: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
    """The usual gradients, with the sum over rows, dW = x' dy, laid out for the device.

    On a CPU the narrower factor is transposed in memory first: XLA's fast product there needs row-major inputs,
    and the other one is half as fast. Elsewhere rows are summed in several parts in parallel, or a small dW
    would leave most of the device idle.
    """
    x, weight = saved
    rows, d_rows = x.reshape(-1, x.shape[-1]), dy.reshape(-1, dy.shape[-1])
    if jax.default_backend() != "cpu":
        parts = _parts(len(rows))
        rows, d_rows = (y.reshape(parts, -1, y.shape[-1]) for y in (rows, d_rows))
        return dy @ weight.T, (rows.mT @ d_rows).sum(0), d_rows.sum(1).sum(0)
    if rows.shape[1] <= d_rows.shape[1]:
        d_weight = row_major(rows.T) @ d_rows
    else:
        d_weight = row_major(row_major(d_rows.T) @ rows).T
    return dy @ weight.T, d_weight, d_rows.sum(0)


def _parts(rows: int) -> int:
    """The divisor of `rows` that makes parts of about PART_ROWS; 1 where there is none near."""
    wanted = max(1, rows // PART_ROWS)
    return next((n for n in range(wanted, wanted // 2, -1) if rows % n == 0), 1)


linear.defvjp(_linear_fwd, _linear_bwd)


@jax.custom_vjp
def layer_norm(x: jax.Array, scale: jax.Array, bias: jax.Array) -> jax.Array:
    """(x - mean)/sqrt(var + 1e-6) * scale + bias over the last axis."""
    return _layer_norm_fwd(x, scale, bias)[0]


def _layer_norm_fwd(x: jax.Array, scale: jax.Array, bias: jax.Array) -> tuple[jax.Array, Any]:
    mean = x.mean(-1, keepdims=True)
    var = (x * x).mean(-1, keepdims=True) - mean * mean
    inverse = jax.lax.rsqrt(var + 1e-6)
    return (x - mean) * (inverse * scale) + bias, (x, mean, inverse, scale)


def _layer_norm_bwd(saved: Any, dy: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
    """With n the normalised x and d = dy·scale: (d - mean(d) - n·mean(d·n)) / sigma."""
    x, mean, inverse, scale = saved
    normal, d = (x - mean) * inverse, dy * scale
    along = (d * normal).mean(-1, keepdims=True)
    dx = (d - d.mean(-1, keepdims=True) - normal * along) * inverse
    leading = tuple(range(x.ndim - 1))
    return dx, (dy * normal).sum(leading), dy.sum(leading)


layer_norm.defvjp(_layer_norm_fwd, _layer_norm_bwd)


@jax.custom_vjp
def rows(table: jax.Array, index: jax.Array) -> jax.Array:
    """table[index]: rows of [N, ...] for an index of any shape."""
    return table[index]


def _rows_fwd(table: jax.Array, index: jax.Array) -> tuple[jax.Array, Any]:
    return table[index], (table, index)


def _rows_bwd(saved: Any, dy: jax.Array) -> tuple[jax.Array, None]:
    """Scatter-add of the rows: one by one on a CPU, by a one-hot product elsewhere.

    On an accelerator a scatter-add is slow, and its order differs from run to run, and so does its rounding.
    The index is split into a coarse and a fine part: a one-hot of all rows could need too much memory.
    """
    table, index = saved
    if jax.default_backend() == "cpu":
        return jnp.zeros_like(table).at[index].add(dy), None
    dy = dy.reshape(index.size, -1)
    fine = math.ceil((len(table) / dy.shape[1]) ** 0.5)
    coarse = -(-len(table) // fine)
    place = index.reshape(-1)
    apart = jax.nn.one_hot(place % fine, fine, dtype=dy.dtype)[..., None] * dy[:, None]
    came = jax.nn.one_hot(place // fine, coarse, dtype=dy.dtype, axis=0)
    summed = came @ apart.reshape(index.size, -1)
    return summed.reshape(coarse * fine, -1)[: len(table)].reshape(table.shape), None


rows.defvjp(_rows_fwd, _rows_bwd)


def select(log_probs: jax.Array, actions: jax.Array) -> jax.Array:
    """log_probs[..., V] at actions[...]; a one-hot product, whose gradient needs no scatter.

    Leading axes broadcast, so one row of log-probs can serve many actions.
    """
    one_hot = jax.nn.one_hot(actions, log_probs.shape[-1], dtype=log_probs.dtype)
    return jnp.sum(log_probs * one_hot, axis=-1)

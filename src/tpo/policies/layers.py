"""The few neural layers the policies share: plain functions of arrays, no neural library."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

TRUNCATED_STD = 0.87962566103423978
"""Standard deviation of a unit normal cut at two sigma; dividing by it restores variance 1."""


def lecun_normal(key: jax.Array, shape: tuple[int, ...], fan_in: int) -> jax.Array:
    """N(0, 1/fan_in) cut at two sigma: the usual initialisation of a linear map."""
    scale = fan_in**-0.5 / TRUNCATED_STD
    return scale * jax.random.truncated_normal(key, -2.0, 2.0, shape)


@jax.custom_vjp
def linear(x: jax.Array, weight: jax.Array, bias: jax.Array) -> jax.Array:
    """x W + b over the last axis."""
    return x @ weight + bias


def _linear_fwd(x: jax.Array, weight: jax.Array, bias: jax.Array) -> tuple[jax.Array, Any]:
    return x @ weight + bias, (x, weight)


def _linear_bwd(saved: Any, dy: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
    """The usual gradients; on a CPU with the narrower factor of dW transposed in memory beforehand.

    XLA's fast product there wants rows; left alone it falls back to one half as fast.
    """
    x, weight = saved
    rows, d_rows = x.reshape(-1, x.shape[-1]), dy.reshape(-1, dy.shape[-1])
    turned = jax.lax.optimization_barrier if jax.default_backend() == "cpu" else _as_is
    if rows.shape[1] <= d_rows.shape[1]:
        d_weight = turned(rows.T) @ d_rows
    else:
        d_weight = turned(turned(d_rows.T) @ rows).T
    return dy @ weight.T, d_weight, d_rows.sum(0)


def _as_is(x: jax.Array) -> jax.Array:
    return x


linear.defvjp(_linear_fwd, _linear_bwd)


def layer_norm(x: jax.Array, scale: jax.Array, bias: jax.Array) -> jax.Array:
    """(x - mean)/sqrt(var + 1e-6) * scale + bias over the last axis."""
    mean = x.mean(-1, keepdims=True)
    var = (x * x).mean(-1, keepdims=True) - mean * mean
    return (x - mean) * (jax.lax.rsqrt(var + 1e-6) * scale) + bias


def select(log_probs: jax.Array, actions: jax.Array) -> jax.Array:
    """log_probs[..., V] at actions[...]; a one-hot product, whose gradient needs no scatter.

    Leading axes broadcast, so one row of log-probs can serve many actions.
    """
    one_hot = jax.nn.one_hot(actions, log_probs.shape[-1], dtype=log_probs.dtype)
    return jnp.sum(log_probs * one_hot, axis=-1)

"""The few neural layers the policies share: plain functions of arrays, no neural library."""

from __future__ import annotations

import jax
import jax.numpy as jnp

TRUNCATED_STD = 0.87962566103423978
"""Standard deviation of a unit normal cut at two sigma; dividing by it restores variance 1."""


def lecun_normal(key: jax.Array, shape: tuple[int, ...], fan_in: int) -> jax.Array:
    """N(0, 1/fan_in) cut at two sigma: the usual initialisation of a linear map."""
    scale = fan_in**-0.5 / TRUNCATED_STD
    return scale * jax.random.truncated_normal(key, -2.0, 2.0, shape)


def linear(x: jax.Array, weight: jax.Array, bias: jax.Array) -> jax.Array:
    """x W + b over the last axis."""
    return x @ weight + bias


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

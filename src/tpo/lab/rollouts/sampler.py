"""The sampler: S streams per context, W candidates drawn at every prefix, the first one taken."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from tpo.lab.policies.base import Params, Policy
from tpo.lab.rollouts.data_parallel import UNSHARDED, DataParallel


class Sample(NamedTuple):
    """What was drawn, [B, S, T, W]; candidate 0 of each prefix is the action that was taken."""

    candidates: jax.Array
    log_probs: jax.Array

    @property
    def taken(self) -> jax.Array:
        """[B, S, T]"""
        return self.candidates[..., 0]


class Shape(NamedTuple):
    """How much to sample: S streams per context, T actions each, W candidates per prefix."""

    streams: int
    length: int
    width: int


def sample(
    policy: Policy,
    params: Params,
    inputs: Any,
    shape: Shape,
    key: jax.Array | None,
    parallel: DataParallel = UNSHARDED,
) -> Sample:
    """Draw from the policy at temperature 1; without a key take the most probable action.

    The context is run once, however many streams continue it. Gumbel noise for all steps is drawn
    beforehand, so that the draw depends on key and shape only. Each device takes its shard of the noise.
    """
    first, state = policy.prefill(params, inputs)
    s, t, w = shape
    b, v = first.shape
    noise = jnp.zeros((t, 1, 1, 1, 1))
    if key is not None:
        of_all = jax.random.gumbel(key, (t, parallel.size * b, s, w, v), first.dtype)
        noise = parallel.shard(of_all, axis=1)
    drawn = _draw(jnp.broadcast_to(first[:, None], (b, s, v)), noise[0], w)
    if t == 1:
        return Sample(drawn[0][:, :, None], drawn[1][:, :, None])

    def advance(
        carry: tuple[jax.Array, Any], step: tuple[jax.Array, jax.Array]
    ) -> tuple[tuple[jax.Array, Any], tuple[jax.Array, jax.Array]]:
        (tokens, cache), (index, noise_t) = carry, step
        logits, cache = policy.step(params, cache, tokens, index)
        candidates, log_probs = _draw(logits, noise_t, w)
        return (candidates[..., 0], cache), (candidates, log_probs)

    start = (drawn[0][..., 0], policy.cache(state, s))
    _, rest = jax.lax.scan(advance, start, (jnp.arange(t - 1), noise[1:]))
    return Sample(*(jnp.moveaxis(jnp.concatenate([x[None], y]), 0, 2)
                    for x, y in zip(drawn, rest, strict=True)))  # fmt: skip


def _draw(logits: jax.Array, noise: jax.Array, width: int) -> tuple[jax.Array, jax.Array]:
    """W actions and their log-probs, [B, S, W], for logits [B, S, V] and noise [B, S, W, V]."""
    log_probs = jax.nn.log_softmax(logits)
    actions = jnp.argmax(log_probs[:, :, None] + noise, axis=-1)
    actions = jnp.broadcast_to(actions, (*logits.shape[:2], width))
    return actions, jnp.take_along_axis(log_probs, actions, axis=-1)

"""tpo, grpo and lpo against short hand-written losses of the same values, for [64, 16] candidates.

One call computes a whole update, `prepare` and the gradient. In eager torch, ours spends extra time on checks
and on exact results for constant groups; in jitted JAX it does not.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import numpy as np

import tpo
from tpo.benchmarks.timing import BenchmarkRow, compared

SHAPE = (64, 16)
NAMES = ("tpo", "grpo", "lpo")


def rows() -> list[BenchmarkRow]:
    """A row per objective and installed library."""
    found = []
    if find_spec("torch"):
        found += [compared(f"torch eager: {name}", *_torch(name)) for name in NAMES]
    if find_spec("jax"):
        found += [compared(f"jax jit: {name}", *_jax(name)) for name in NAMES]
    return found


def _inputs() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    scores = (rng.random(SHAPE) < 0.3).astype(np.float32)
    old, new = rng.standard_normal((2, *SHAPE), dtype=np.float32)
    return scores, old, new


def by_hand(xp: Any, name: str, new: Any, old: Any, scores: Any) -> Any:
    """The loss in a few lines of torch or jax.numpy; it has the same values as ours."""
    centred = scores - scores.mean(-1, keepdims=True)
    u = centred / (xp.sqrt((centred * centred).mean(-1, keepdims=True)) + 1e-8)
    if name == "tpo":
        return -(xp.softmax(old + u, -1) * xp.log_softmax(new, -1)).sum(-1).mean()
    if name == "lpo":
        s = xp.clip(new - old, math.log(0.8), math.log(1.2))
        return -(xp.softmax(u, -1) * xp.log_softmax(s, -1)).sum(-1).mean()
    d = new - old
    r = xp.exp(d)
    surrogate = xp.minimum(r * u, xp.clip(r, 0.8, 1.2) * u)
    return (-surrogate + 0.04 * (xp.exp(-d) + d - 1)).mean()


def _torch(name: str) -> tuple[Callable[[], Any], str, Callable[[], Any]]:
    import torch

    torch.set_num_threads(1)
    scores, old, new = map(torch.asarray, _inputs())
    old_tokens, new_tokens = old[..., None], new[..., None]
    objective = tpo.objective(name)

    def ours() -> Any:
        x = new_tokens.clone().requires_grad_()
        prepared = objective.prepare(tpo.Groups(log_probs_old=old_tokens, scores=scores))
        objective.loss(x, prepared).backward()
        return x.grad

    def hand() -> Any:
        x = new.clone().requires_grad_()
        by_hand(torch, name, x, old, scores).backward()
        return x.grad

    _agree(ours()[..., 0], hand())
    return ours, "by hand, eager", hand


def _jax(name: str) -> tuple[Callable[[], Any], str, Callable[[], Any]]:
    import jax
    import jax.numpy as jnp

    scores, old, new = map(jnp.asarray, _inputs())
    objective = tpo.objective(name)

    def our_loss(x: Any, old: Any, scores: Any) -> Any:
        prepared = objective.prepare(tpo.Groups(log_probs_old=old[..., None], scores=scores))
        return objective.loss(x[..., None], prepared)

    def hand_loss(x: Any, old: Any, scores: Any) -> Any:
        return by_hand(_JaxByHand(), name, x, old, scores)

    ours, hand = (jax.jit(jax.grad(loss)) for loss in (our_loss, hand_loss))
    _agree(ours(new, old, scores), hand(new, old, scores))
    return (
        lambda: ours(new, old, scores).block_until_ready(),
        "by hand, jitted",
        lambda: hand(new, old, scores).block_until_ready(),
    )


class _JaxByHand:
    """jax.numpy and jax.nn under torch's names."""

    def __getattr__(self, name: str) -> Any:
        import jax

        return getattr(jax.nn, name) if "softmax" in name else getattr(jax.numpy, name)


def _agree(ours: Any, hand: Any) -> None:
    worst = float(abs(np.asarray(ours) - np.asarray(hand)).max())
    if worst > 1e-6:
        raise AssertionError(
            f"the gradients of the two versions differ by {worst}, expected at most 1e-6"
        )

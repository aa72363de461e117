"""Speed of the lab's hot paths: beside a naive computation of the same numbers, and above a floor.

The naive policy keeps no cache and shares no prompt: each step of sampling and each candidate of an
update runs its whole sequence, as a first implementation would. The floor is the arithmetic of the
minimal algorithm (each prompt once, each distinct path once, forward once to sample and three times
per epoch) over the rate of a matrix product measured beside it.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp

from tpo.policies import Params, Paths, Transformer
from tpo.tasks import Sequences
from tpo.training import Budget, Cell, Pace, method
from tpo.training.loop import Runner

SETTINGS = {
    "token-level TPO": ("tpo_token", "bag"),
    "terminal TPO": ("tpo", "terminal"),
    "PPO": ("ppo", "bag"),
    "DG": ("dg", "bag"),
}
HORIZON, BATCH = 10, 100


@dataclass(frozen=True)
class NaiveTransformer(Transformer):
    """The same policy without a cache and without sharing."""

    def together(
        self, params: Params, inputs: jax.Array, paths: Paths
    ) -> tuple[jax.Array, jax.Array, Any]:
        owner = jnp.arange(len(paths.tokens)) if paths.owner is None else paths.owner
        first, _ = self.prefill(params, inputs)
        rest = super().together(params, inputs[owner], Paths(paths.tokens, None))[1]
        return first, rest, inputs

    def prefill(self, params: Params, inputs: jax.Array) -> tuple[jax.Array, Any]:
        nothing = Paths(jnp.zeros((0, 1), jnp.int32), jnp.zeros(0, jnp.int32))
        return Transformer.together(self, params, inputs, nothing)[0], inputs

    def cache(self, state: Any, streams: int) -> Any:
        tokens = jnp.zeros((state.shape[0] * streams, self.length - 1), jnp.int32)
        return jnp.repeat(state, streams, axis=0), tokens

    def step(
        self, params: Params, cache: Any, tokens: jax.Array, t: jax.Array
    ) -> tuple[jax.Array, Any]:
        prompts, so_far = cache
        so_far = jax.lax.dynamic_update_slice_in_dim(so_far, tokens.reshape(-1, 1), t, axis=1)
        rest = Transformer.together(self, params, prompts, Paths(so_far, None))[1]
        logits = jax.lax.dynamic_index_in_dim(rest, t, axis=1, keepdims=False)
        return logits.reshape(*tokens.shape, self.vocab), (prompts, so_far)


def rows() -> list[dict[str, Any]]:
    """One row per hot path, per episode of one seed; the ratio is ours/naive, below 1 is faster."""
    rate = product_rate()
    return [_row(name, *setting, rate) for name, setting in SETTINGS.items()]


def _row(name: str, method_name: str, reward: str, rate: float) -> dict[str, Any]:
    cell = Cell(Sequences(HORIZON, reward=reward), method(method_name, HORIZON), Budget(BATCH))
    ours, paths = timed(cell, 10, Pace(chunk=10))
    naively = replace(cell, policy=NaiveTransformer(2, HORIZON, HORIZON))
    naive, _ = timed(naively, 2, Pace(chunk=2, block=10**6))
    floor = operations(cell, paths) / rate
    return {
        "name": f"{name}, an episode",
        "milliseconds": ours * 1e3,
        "microseconds": ours * 1e6,
        "floor_milliseconds": floor * 1e3,
        "over_floor": ours / floor,
        "baseline": "no cache, no shared prompt",
        "baseline_milliseconds": naive * 1e3,
        "baseline_microseconds": naive * 1e6,
        "ratio": ours / naive,
    }


def timed(cell: Cell, episodes: int, pace: Pace, repeats: int = 3) -> tuple[float, float]:
    """Best seconds per episode, without compiling; and the distinct paths of an episode."""
    cell = replace(cell, budget=replace(cell.budget, episodes=episodes * (repeats + 1)))
    runner = Runner(cell, pace)
    runner.restore(None)
    runner.advance()
    best = float("inf")
    for _ in range(repeats):
        began = time.perf_counter()
        runner.advance()
        best = min(best, time.perf_counter() - began)
    return best / episodes, float(runner.curves()["distinct"].mean())


def operations(cell: Cell, paths: float) -> float:
    """Floating-point operations of the linear maps of an episode, by the minimal algorithm."""
    policy = cell.acting
    assert isinstance(policy, Transformer)
    d, fed = policy.width, cell.task.length - 1
    layer = 2 * 12 * d * d
    of_prompt = BATCH * HORIZON * ((policy.layers - 1) * layer + 2 * 2 * d * d) + BATCH * layer
    sampled = BATCH * cell.method.rollout.shape(cell.task).streams * fed * policy.layers * layer
    epoch = 3 * (of_prompt + paths * fed * policy.layers * layer)
    return of_prompt + sampled + cell.method.epochs * epoch


def product_rate() -> float:
    """Operations per second of the product that dominates: [2000, 64] by [64, 256]."""
    x, w = jnp.ones((2000, 64)), jnp.ones((64, 256))
    product = jax.jit(jnp.matmul)
    product(x, w).block_until_ready()
    best = float("inf")
    for _ in range(20):
        began = time.perf_counter()
        for _ in range(10):
            result = product(x, w)
        result.block_until_ready()
        best = min(best, (time.perf_counter() - began) / 10)
    return 2 * 2000 * 64 * 256 / best

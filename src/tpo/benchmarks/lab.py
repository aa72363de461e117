"""Speed of the lab's training episodes against a naive policy, and against a lower bound.

The naive policy computes the same numbers without a cache and without sharing prompts: each sampling step and
each candidate of an update runs its whole sequence. The lower bound is the number of operations of the minimal
algorithm, divided by the measured rate of a matrix product. That algorithm computes each prompt and each
distinct path once, one forward pass to sample and three per epoch.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp

from tpo.lab.policies import Params, Paths, Transformer
from tpo.lab.tasks import Sequences
from tpo.lab.training import Budget, Cell, Pace, method
from tpo.lab.training.loop import TrainingRun

SETTINGS = {
    "token-level TPO": ("tpo_token", "bag"),
    "terminal TPO": ("tpo", "terminal"),
    "PPO": ("ppo", "bag"),
    "DG": ("dg", "bag"),
}
HORIZON, BATCH = 10, 100


@dataclass(frozen=True)
class NaiveTransformer(Transformer):
    """The same policy without a cache and without shared prompts."""

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
    """A row per method, timed per episode of one seed; the ratio is ours/naive, below 1 is faster."""
    rate = product_rate()
    return [_row(name, *setting, rate) for name, setting in SETTINGS.items()]


def _row(name: str, method_name: str, reward: str, rate: float) -> dict[str, Any]:
    cell = Cell(Sequences(HORIZON, reward=reward), method(method_name, HORIZON), Budget(BATCH))
    naive_cell = replace(cell, policy=NaiveTransformer(2, HORIZON, HORIZON))
    ours, naive = _started(cell, Pace(chunk=10)), _started(naive_cell, Pace(chunk=2, block=10**6))
    pairs = [(timed(ours, 10), timed(naive, 2)) for _ in range(3)]
    best, other = min(x for x, _ in pairs), min(y for _, y in pairs)
    bound = operations(cell, float(ours.curves()["distinct"].mean())) / rate
    return {
        "name": f"{name}, an episode",
        "milliseconds": best * 1e3,
        "microseconds": best * 1e6,
        "lower_bound_milliseconds": bound * 1e3,
        "over_lower_bound": best / bound,
        "baseline": "no cache, no shared prompt",
        "baseline_milliseconds": other * 1e3,
        "baseline_microseconds": other * 1e6,
        "ratio": min(x / y for x, y in pairs),
    }


def _started(cell: Cell, pace: Pace) -> TrainingRun:
    """A run that is compiled and has finished its first chunk."""
    runner = TrainingRun(cell, pace)
    runner.restore(None)
    runner.advance()
    return runner


def timed(runner: TrainingRun, episodes: int) -> float:
    """Seconds per episode of the next chunk."""
    began = time.perf_counter()
    runner.advance()
    return (time.perf_counter() - began) / episodes


def operations(cell: Cell, paths: float) -> float:
    """Floating-point operations of the linear maps in an episode of the minimal algorithm."""
    policy = cell.resolved_policy
    assert isinstance(policy, Transformer)
    d, fed = policy.width, cell.task.length - 1
    layer = 2 * 12 * d * d
    of_prompt = BATCH * HORIZON * ((policy.layers - 1) * layer + 2 * 2 * d * d) + BATCH * layer
    sampled = BATCH * cell.method.rollout.shape(cell.task).streams * fed * policy.layers * layer
    epoch = 3 * (of_prompt + paths * fed * policy.layers * layer)
    return of_prompt + sampled + cell.method.epochs * epoch


def product_rate() -> float:
    """Operations per second of the dominant matrix product: [2000, 64] by [64, 256]."""
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

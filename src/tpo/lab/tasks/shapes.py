"""The shapes of a task's arrays, checked by tracing: nothing is computed."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from tpo.lab.tasks.base import Contexts, Task

OBSERVED = ("tokens", "features", "index")
B, S = 3, 2


def check_shapes(task: Task) -> None:
    """Raise, naming the method, if contexts or rewards have another shape or type than a task's."""
    name = type(task).__name__
    observes = task.observes
    if not (isinstance(observes, tuple) and len(observes) == 2 and observes[0] in OBSERVED):
        raise ValueError(
            f"{name}.observes is {observes!r}, expected ('tokens', H), ('features', n) or ('index', contexts)"
        )
    for part in ("actions", "length"):
        if not isinstance(getattr(task, part), int) or getattr(task, part) < 1:
            raise ValueError(
                f"{name}.{part} is {getattr(task, part)!r}, expected a whole number of at least 1"
            )
    found = jax.eval_shape(lambda key: task.contexts(task.load(), key, B), jax.random.key(0))
    if not isinstance(found, Contexts):
        raise TypeError(
            f"{name}.contexts returned a {type(found).__name__}, expected "
            "tpo.lab.tasks.Contexts(inputs, answer)"
        )
    _check_inputs(name, observes, found)
    actions = jax.eval_shape(lambda: jnp.zeros((B, S, task.length), jnp.int32))
    _check_rewards(name, jax.eval_shape(task.rewards, found.answer, actions), actions.shape)


def _check_inputs(name: str, observes: tuple[str, int], found: Contexts) -> None:
    for x in jax.tree.leaves(found):
        if x.shape[:1] != (B,):
            raise ValueError(
                f"{name}.contexts returned an array of shape {x.shape} for batch={B}: "
                "the first axis of inputs and answer is the batch"
            )
    expected = (B,) if observes[0] == "index" else (B, observes[1])
    got = getattr(found.inputs, "shape", None)
    if got != expected:
        raise ValueError(
            f"{name}.contexts returned inputs of shape {got} for batch={B}, and observes is {observes!r}: "
            f"expected {expected}"
        )


def _check_rewards(name: str, found: Any, expected: tuple[int, ...]) -> None:
    got = getattr(found, "shape", None)
    if got != expected:
        raise ValueError(
            f"{name}.rewards returned shape {got} for actions of shape {expected}: expected the same shape, "
            "a reward for each action; a reward for the whole episode is repeated at each"
        )
    if not jnp.issubdtype(found.dtype, jnp.floating):
        raise TypeError(
            f"{name}.rewards returned {found.dtype}, expected floats: end it with .astype(jnp.float32)"
        )

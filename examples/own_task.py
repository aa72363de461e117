"""A task of your own in the lab, without changing the library: is the number of set bits in a row odd?

    python examples/own_task.py

A task is a frozen dataclass with the attributes and methods of `tpo.lab.tasks.Task`. `register` gives it a name
for stored results. The library does the rest: policy, rollouts, objectives, seeds, checkpoints.
"""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp

from tpo.lab.tasks import Contexts
from tpo.lab.training import Budget, Cell, Optimiser, method, register, run


@dataclass(frozen=True)
class Parity:
    """Answer 1 where an odd number of bits is set."""

    bits: int = 4

    @property
    def observes(self) -> tuple[str, int]:
        return "features", self.bits

    actions = 2
    length = 1
    dense = True

    def load(self) -> tuple[()]:
        return ()

    def contexts(self, data: tuple[()], key: jax.Array, batch: int) -> Contexts:
        bits = jax.random.bernoulli(key, 0.5, (batch, self.bits)).astype(jnp.float32)
        return Contexts(inputs=bits, answer=bits.sum(-1).astype(int) % 2)

    def rewards(self, answer: jax.Array, actions: jax.Array) -> jax.Array:
        return (actions == answer[:, None, None]).astype(jnp.float32)

    def held_out(self, data: tuple[()]) -> None:
        return None


register("parity", Parity)


def main(episodes: int = 600) -> dict[str, float]:
    """Train three methods on parity, and return each one's share of wrong answers in the last 50 episodes."""
    errors = {}
    for name in ("tpo", "dg", "pg"):
        cell = Cell(
            task=Parity(),
            method=method(name, length=1),
            budget=Budget(batch=64, episodes=episodes, seeds=2),
            optimiser=Optimiser("adam", 1e-2),
        )
        errors[name] = float(run(cell)["error"][:, -50:].mean())
        print(f"{name:4} error {errors[name]:.3f}")
    return errors


if __name__ == "__main__":
    main()

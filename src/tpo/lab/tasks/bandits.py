"""Bandits: one action per context, one of which is right."""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp

from tpo.lab.tasks.base import Contexts


@dataclass(frozen=True)
class Bandit:
    """C contexts with A arms, arm 0 correct in each; a batch goes round the contexts in order.

    One context and a batch of samples is the paper's Fig. 3; a batch of all contexts with exact
    population updates its Fig. 4. Which arm is right does not matter: the table starts symmetric.
    """

    arms: int = 10
    n_contexts: int = 1

    def __post_init__(self) -> None:
        for name, least in (("arms", 2), ("n_contexts", 1)):
            if getattr(self, name) < least:
                raise ValueError(f"{name} is {getattr(self, name)}, expected at least {least}")

    @property
    def observes(self) -> tuple[str, int]:
        return "index", self.n_contexts

    @property
    def actions(self) -> int:
        return self.arms

    @property
    def length(self) -> int:
        return 1

    @property
    def dense(self) -> bool:
        return True

    def load(self) -> tuple[()]:
        return ()

    def contexts(self, data: tuple[()], key: jax.Array, batch: int) -> Contexts:
        index = jnp.arange(batch) % self.n_contexts
        return Contexts(index, jnp.zeros(batch, jnp.int32))

    def rewards(self, answer: jax.Array, actions: jax.Array) -> jax.Array:
        return (actions == answer[:, None, None]).astype(jnp.float32)

    def held_out(self, data: tuple[()]) -> None:
        return None

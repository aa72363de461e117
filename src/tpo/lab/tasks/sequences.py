"""Token sequences: answer a prompt of H random tokens with H tokens of your own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import jax
import jax.numpy as jnp

from tpo.lab.names import REWARDS
from tpo.lab.tasks.base import Contexts

TARGETS: dict[str, Callable[[jax.Array, int], jax.Array]] = {
    "copy": lambda prompt, vocab: prompt,
    "flip": lambda prompt, vocab: vocab - 1 - prompt,
    "reverse_copy": lambda prompt, vocab: prompt[:, ::-1],
    "reverse_flip": lambda prompt, vocab: vocab - 1 - prompt[:, ::-1],
}


@dataclass(frozen=True)
class Sequences:
    """Produce the target of a prompt that is uniform over V^H.

    Rewards per token: `bag` 1[correct]; `sequential` 1[correct so far]; `terminal` 1[all correct] on
    every token. Source: arXiv 2604.06159, section 4.
    """

    horizon: int = 10
    vocab: int = 2
    target: str = "reverse_copy"
    reward: str = "terminal"

    def __post_init__(self) -> None:
        _one_of("target", self.target, tuple(TARGETS))
        _one_of("reward", self.reward, REWARDS)
        for name, least in (("horizon", 1), ("vocab", 2)):
            if getattr(self, name) < least:
                raise ValueError(f"{name} is {getattr(self, name)}, expected at least {least}")

    @property
    def observes(self) -> tuple[str, int]:
        return "tokens", self.horizon

    @property
    def actions(self) -> int:
        return self.vocab

    @property
    def length(self) -> int:
        return self.horizon

    @property
    def dense(self) -> bool:
        return self.reward != "terminal"

    def load(self) -> tuple[()]:
        return ()

    def contexts(self, data: tuple[()], key: jax.Array, batch: int) -> Contexts:
        prompts = jax.random.randint(key, (batch, self.horizon), 0, self.vocab)
        return Contexts(prompts, TARGETS[self.target](prompts, self.vocab))

    def rewards(self, answer: jax.Array, actions: jax.Array) -> jax.Array:
        correct = (actions == answer[:, None]).astype(jnp.float32)
        if self.reward == "bag":
            return correct
        if self.reward == "sequential":
            return jnp.cumprod(correct, axis=-1)
        return jnp.broadcast_to(correct.min(-1, keepdims=True), correct.shape)

    def held_out(self, data: tuple[()]) -> None:
        return None


def _one_of(name: str, value: str, valid: tuple[str, ...]) -> None:
    if value not in valid:
        raise ValueError(f"{name} is {value!r}, expected one of {', '.join(valid)}")

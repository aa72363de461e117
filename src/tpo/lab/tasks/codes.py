"""Codes: copy a prompt of bits in one action, with rewards that mislead, distract or are corrupted."""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp

from tpo.lab.names import EXTRA_REWARDS, REWARDED
from tpo.lab.tasks.base import Contexts


@dataclass(frozen=True)
class Codes:
    """Prompts of random bits, -1 or 1; an action is one of the 2^bits codes, and right if it is the prompt.

    The reward learned from is 1[right] + size·extra for what `rewarded` names ("failures" or "all"), where
    extra is the share of right bits ("helpful"), of wrong bits ("misleading"), uniform noise ("random") or
    the first bit of the code ("systematic"). Then it is inverted, to 1 - reward, with probability `corrupted`.
    """

    bits: int = 6
    extra: str = "helpful"
    size: float = 0.0
    rewarded: str = "failures"
    corrupted: float = 0.0

    def __post_init__(self) -> None:
        if not 1 <= self.bits <= 12:
            raise ValueError(f"bits is {self.bits}, expected 1 to 12")
        for name, valid in (("extra", EXTRA_REWARDS), ("rewarded", REWARDED)):
            if getattr(self, name) not in valid:
                raise ValueError(
                    f"{name} is {getattr(self, name)!r}, expected one of {', '.join(valid)}"
                )
        if not 0 <= self.size < 0.5:
            raise ValueError(f"size is {self.size}, expected a number from 0, below 0.5")
        if not 0 <= self.corrupted <= 1:
            raise ValueError(f"corrupted is {self.corrupted}, expected a probability")

    @property
    def observes(self) -> tuple[str, int]:
        return "features", self.bits

    @property
    def actions(self) -> int:
        return int(2**self.bits)

    @property
    def length(self) -> int:
        return 1

    @property
    def dense(self) -> bool:
        return True

    def load(self) -> tuple[()]:
        return ()

    def contexts(self, data: tuple[()], key: jax.Array, batch: int) -> Contexts:
        for_prompts, for_noise = jax.random.split(key)
        prompts = jax.random.rademacher(for_prompts, (batch, self.bits), jnp.float32)
        noise = jax.random.key_data(jax.random.split(for_noise, batch))
        return Contexts(prompts, (prompts, noise))

    def rewards(self, answer: tuple[jax.Array, jax.Array], actions: jax.Array) -> jax.Array:
        """The rewards that are learned from; their noise depends on the prompt's key alone."""
        prompts, noise = answer

        def drawn(data: jax.Array) -> jax.Array:
            return jax.random.uniform(jax.random.wrap_key_data(data), (2, *actions.shape[1:]))

        uniform = jax.vmap(drawn)(noise)
        matches = self._matches(prompts, actions)
        right = (matches == 1).astype(jnp.float32)
        extra = {
            "helpful": matches,
            "misleading": 1 - matches,
            "random": uniform[:, 0],
            "systematic": (actions % 2).astype(jnp.float32),
        }[self.extra]
        counted = 1 - right if self.rewarded == "failures" else 1.0
        found = right + self.size * extra * counted
        return jnp.where(uniform[:, 1] < self.corrupted, 1 - found, found)

    def right(self, answer: tuple[jax.Array, jax.Array], actions: jax.Array) -> jax.Array:
        """1 for a right action, else 0: what is measured, where rewards are something else."""
        return (self._matches(answer[0], actions) == 1).astype(jnp.float32)

    def _matches(self, prompts: jax.Array, actions: jax.Array) -> jax.Array:
        """[B, S, T] the share of an action's bits that are the prompt's."""
        return (codes(self.bits)[actions] == prompts[:, None, None]).mean(-1)

    def held_out(self, data: tuple[()]) -> None:
        return None


def codes(bits: int) -> jax.Array:
    """[2^bits, bits] the code of each action, -1 or 1; the first bit is the last digit of its number."""
    digits = jnp.arange(2**bits)[:, None] >> jnp.arange(bits)
    return (2 * (digits % 2) - 1).astype(jnp.float32)

"""The protocol of a task: contexts to act in, and rewards for the actions."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import jax


class Contexts(NamedTuple):
    """A batch of B contexts; either field may be any pytree of arrays with leading axis B."""

    inputs: Any
    """What the policy sees."""
    answer: Any
    """What only the scorer sees."""


class Task(Protocol):
    """A frozen value. All randomness comes from the key; large arrays come from `load`.

    A task of your own is a frozen dataclass with these attributes and methods; see `examples/own_task.py`.
    Where rewards are not the truth (noise, shaping), a task of one action may also have
    `right(answer, actions)`, shaped like `rewards`: whether an action is right. The expected error is then
    computed from it.
    """

    @property
    def observes(self) -> tuple[str, int]:
        """What `inputs` are: ("tokens", H), ("features", n) or ("index", number of contexts)."""
        ...

    @property
    def actions(self) -> int:
        """How many actions (tokens) there are to choose from, V."""
        ...

    @property
    def length(self) -> int:
        """How many actions make an episode, T."""
        ...

    @property
    def dense(self) -> bool:
        """True if no reward depends on later actions, so that single tokens can be scored."""
        ...

    def load(self) -> Any:
        """Arrays the task needs on the device (data sets); () for none."""
        ...

    def contexts(self, data: Any, key: jax.Array, batch: int) -> Contexts:
        """A fresh batch of B contexts."""
        ...

    def rewards(self, answer: Any, actions: jax.Array) -> jax.Array:
        """A reward for each action, [B, S, T] for actions [B, S, T]; in [0, 1], 1 is right."""
        ...

    def held_out(self, data: Any) -> Contexts | None:
        """Contexts for evaluation that are not trained on; None if there are none."""
        ...

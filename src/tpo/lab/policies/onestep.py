"""Policies for one action per context: a table of logits, a multilayer perceptron, and codes of bits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NoReturn

import jax
import jax.numpy as jnp

from tpo.lab.policies.base import Params
from tpo.lab.policies.layers import lecun_normal, linear


class OneStep:
    """A policy whose episode is one action: nothing follows the first logits."""

    matrices: frozenset[str] = frozenset()

    def extend(self, *_: Any) -> NoReturn:
        raise TypeError(
            f"{type(self).__name__} takes one action per context, and this task asks for more: "
            "use the transformer policy"
        )

    together = extend
    cache = extend
    step = extend


@dataclass(frozen=True)
class Table(OneStep):
    """pi(a | c) = softmax of row c of a [contexts, actions] table of logits.

    Logits start from N(0, spread^2): 0 for the uniform policy.
    """

    contexts: int
    actions: int
    spread: float = 0.0

    @property
    def outputs(self) -> int:
        """Logits per context."""
        return self.actions

    def init(self, key: jax.Array) -> Params:
        return {"logits": self.spread * jax.random.normal(key, (self.contexts, self.outputs))}

    def critic(self, outputs: int = 1) -> TableCritic:
        """A table of values."""
        return TableCritic(self.contexts, self.actions, 0.0, outputs)

    def prefill(self, params: Params, inputs: jax.Array) -> tuple[jax.Array, tuple[()]]:
        return params["logits"][inputs], ()


@dataclass(frozen=True)
class TableCritic(Table):
    """A row of values for each context, 0 at first."""

    outputs: int = 1


@dataclass(frozen=True)
class MLP(OneStep):
    """Features to logits through ReLU layers; truncated LeCun normal weights, zero biases."""

    features: int
    actions: int
    hidden: tuple[int, ...] = (50, 50)

    @property
    def outputs(self) -> int:
        """Logits per context."""
        return self.actions

    @property
    def _sizes(self) -> tuple[int, ...]:
        return (self.features, *self.hidden, self.outputs)

    def critic(self, outputs: int = 1) -> MLPCritic:
        """The same layers with a last one of values."""
        return MLPCritic(self.features, self.actions, self.hidden, outputs)

    def init(self, key: jax.Array) -> Params:
        keys = jax.random.split(key, len(self._sizes) - 1)
        params: Params = {}
        for i, (n, m) in enumerate(zip(self._sizes[:-1], self._sizes[1:], strict=True)):
            params[f"weight{i}"] = lecun_normal(keys[i], (n, m), n)
            params[f"bias{i}"] = jnp.zeros(m)
        return params

    def prefill(self, params: Params, inputs: jax.Array) -> tuple[jax.Array, tuple[()]]:
        x = inputs
        last = len(self._sizes) - 2
        for i in range(last + 1):
            x = linear(x, params[f"weight{i}"], params[f"bias{i}"])
            x = x if i == last else jax.nn.relu(x)
        return x, ()


@dataclass(frozen=True)
class MLPCritic(MLP):
    """An MLP of values, 0 at first."""

    outputs: int = 1

    def init(self, key: jax.Array) -> Params:
        params = super().init(key)
        last = f"weight{len(self.hidden)}"
        return {**params, last: jnp.zeros_like(params[last])}


@dataclass(frozen=True)
class CodePolicy(OneStep):
    """Codes whose bits are independent, each with a logit that is linear in the prompt's bits.

    rare: the first policy has each bit of its prompt with probability 1/2 - rare.
    """

    bits: int
    rare: float = 0.0

    def __post_init__(self) -> None:
        if not 0 <= self.rare < 0.5:
            raise ValueError(f"rare is {self.rare}, expected a number from 0, below 0.5")

    def critic(self, outputs: int = 1) -> MLPCritic:
        """Values that are linear in the prompt's bits."""
        return MLPCritic(self.bits, 2**self.bits, (), outputs)

    def init(self, key: jax.Array) -> Params:
        right = 0.5 - self.rare
        weight = jnp.log(right / (1 - right)) * jnp.eye(self.bits)
        return {"weight": weight, "bias": jnp.zeros(self.bits)}

    def prefill(self, params: Params, inputs: jax.Array) -> tuple[jax.Array, tuple[()]]:
        of_bits = linear(inputs, params["weight"], params["bias"])
        digits = jnp.arange(2**self.bits)[:, None] >> jnp.arange(self.bits)
        return of_bits @ (digits % 2).astype(of_bits.dtype).T, ()

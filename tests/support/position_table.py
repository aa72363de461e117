"""The smallest policy with several steps: a table of logits per position. Also a test of the protocol."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp

from tpo.lab.training import register


@dataclass(frozen=True)
class PositionTable:
    """pi(a_t) = softmax(logits[t]), whatever the prompt."""

    length: int
    actions: int
    spread: float = 0.5

    matrices = frozenset()

    def critic(self, outputs=1):
        return PositionTable(self.length, outputs, spread=0.0)

    def init(self, key):
        return {"logits": self.spread * jax.random.normal(key, (self.length, self.actions))}

    def prefill(self, params, inputs):
        first = jnp.broadcast_to(params["logits"][0], (len(inputs), self.actions))
        return first, jnp.zeros(len(inputs))

    def extend(self, params, state, paths):
        rest = params["logits"][1:]
        return jnp.broadcast_to(rest, (len(paths.tokens), *rest.shape))

    def together(self, params, inputs, paths):
        first, state = self.prefill(params, inputs)
        return first, self.extend(params, state, paths), state

    def cache(self, state, streams):
        return state

    def step(self, params, cache, tokens, t):
        logits = jax.lax.dynamic_index_in_dim(params["logits"], t + 1, keepdims=False)
        return jnp.broadcast_to(logits, (*tokens.shape, self.actions)), cache


register("position_table", PositionTable)

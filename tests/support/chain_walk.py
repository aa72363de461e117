"""A walk along `tpo.diagnostics.chain` without slips, as a task; a policy with a row per step and state."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np

from tpo.diagnostics import chain
from tpo.lab.tasks import Contexts
from tpo.lab.training import register


def walk(tokens, states):
    """[..., T+1] the state before each move and after the last; 1 is a step to the right."""
    found = [jnp.zeros(tokens.shape[:-1], int)]
    for t in range(tokens.shape[-1]):
        found.append(jnp.clip(found[-1] + 2 * tokens[..., t] - 1, 0, states - 1))
    return jnp.stack(found, axis=-1)


@dataclass(frozen=True)
class ChainWalk:
    """Every move made in the last state pays 1."""

    states: int = 5
    steps: int = 8

    observes = ("tokens", 1)
    actions = 2
    dense = True

    @property
    def length(self):
        return self.steps

    def load(self):
        return ()

    def contexts(self, data, key, batch):
        return Contexts(jnp.zeros((batch, 1), int), jnp.zeros(batch, int))

    def rewards(self, answer, actions):
        before = walk(actions, self.states)[..., :-1]
        return (before == self.states - 1).astype(jnp.float32)

    def held_out(self, data):
        return None

    def values(self, pi, gamma):
        """[T, states] the exact values of the policy pi [T, states, 2], from the last step backwards."""
        mdp = chain(self.states, gamma, slip=0.0)
        found = np.zeros((self.steps + 1, self.states))
        for t in reversed(range(self.steps)):
            q = mdp.rewards + gamma * mdp.transitions @ found[t + 1]
            found[t] = (pi[t] * q).sum(-1)
        return found[:-1]

    def visits(self, pi):
        """[T, states] the probability to be in a state at a step."""
        mdp = chain(self.states, 0.5, slip=0.0)
        found = [mdp.start]
        for t in range(self.steps - 1):
            found.append(np.einsum("s,sa,sat->t", found[-1], pi[t], mdp.transitions))
        return np.stack(found)


@dataclass(frozen=True)
class ChainTable:
    """Outputs at step t in state s: row [t, s]; the policy begins with a preference for the right."""

    states: int = 5
    steps: int = 8
    outputs: int = 2
    right: float = 1.0

    matrices = frozenset()

    def init(self, key):
        row = self.right * jnp.arange(self.outputs, dtype=jnp.float32)
        return {"rows": jnp.broadcast_to(row, (self.steps, self.states, self.outputs))}

    def critic(self, outputs=1):
        return ChainTable(self.states, self.steps, outputs, 0.0)

    def prefill(self, params, inputs):
        first = params["rows"][0, 0]
        return jnp.broadcast_to(first, (len(inputs), self.outputs)), jnp.zeros(len(inputs))

    def extend(self, params, state, paths):
        after = walk(paths.tokens, self.states)[:, 1:]
        return params["rows"][jnp.arange(1, self.steps), after]

    def together(self, params, inputs, paths):
        first, state = self.prefill(params, inputs)
        return first, self.extend(params, state, paths), state

    def cache(self, state, streams):
        return jnp.zeros((len(state), streams), int)

    def step(self, params, cache, tokens, t):
        after = jnp.clip(cache + 2 * tokens - 1, 0, self.states - 1)
        rows = jax.lax.dynamic_index_in_dim(params["rows"], t + 1, keepdims=False)
        return rows[after], after


register("chain_walk", ChainWalk)
register("chain_table", ChainTable)

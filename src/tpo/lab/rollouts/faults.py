"""Faults of the actor: it samples from another policy than the learner's, and does not report its log-probs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from tpo.lab.policies.base import Params, Policy


@dataclass(frozen=True)
class Faults:
    """What goes wrong in sampling, for tasks of one action.

    bugs: the probability that the actor's action number has its last binary digit inverted. random: that the
    action is uniform. temperature: of the sampler, where the learner's is 1.
    """

    bugs: float = 0.0
    random: float = 0.0
    temperature: float = 1.0

    def __post_init__(self) -> None:
        if min(self.bugs, self.random) < 0 or self.bugs + self.random > 1:
            raise ValueError(
                f"bugs is {self.bugs} and random is {self.random}, expected probabilities of at most 1 together"
            )
        if not self.temperature > 0:
            raise ValueError(f"temperature is {self.temperature}, expected a number above 0")

    def logits(self, logits: jax.Array) -> jax.Array:
        """[B, A] the logits of what is sampled from, for those of the policy."""
        probs = jax.nn.softmax(logits / self.temperature)
        actions = probs.shape[-1]
        wrong = probs[:, jnp.arange(actions) ^ 1]
        kept = 1 - self.bugs - self.random
        return jnp.log(kept * probs + self.bugs * wrong + self.random / actions + 1e-30)


@dataclass(frozen=True)
class FaultyPolicy:
    """A policy of one action with the faults of its actor."""

    policy: Policy
    faults: Faults

    def prefill(self, params: Params, inputs: Any) -> tuple[jax.Array, Any]:
        """Logits of what is sampled from, [B, A]."""
        logits, state = self.policy.prefill(params, inputs)
        return self.faults.logits(logits), state

    def __getattr__(self, name: str) -> Any:
        return getattr(self.policy, name)

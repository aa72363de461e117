"""The critic of a cell: its values of a batch, and its steps on them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from tpo.lab.critics import Critic, Estimates
from tpo.lab.policies import Params, Policy
from tpo.lab.policies.layers import select
from tpo.lab.rollouts import Batch
from tpo.lab.rollouts.data_parallel import UNSHARDED, DataParallel
from tpo.lab.training.cell import Cell
from tpo.lab.training.gradient import BatchLoss, evaluated, value_and_grad
from tpo.lab.training.optimisers import Optimiser
from tpo.objectives import value_loss

OWN_STREAM = 2**32 - 1
"""What the seed is folded with for the critic's parameters; episodes use smaller numbers."""


class CriticState(NamedTuple):
    """The critic's parameters and optimiser."""

    params: Params
    optimiser: Any


@dataclass(frozen=True)
class CriticUpdate:
    """The critic of a cell, made into functions; the fields are those of `Learner`."""

    cell: Cell
    critic: Critic
    block: int
    axis: str | None = None
    parallel: DataParallel = UNSHARDED

    @property
    def network(self) -> Policy:
        """The policy's network with a value per state, or per action."""
        outputs = self.cell.task.actions if self.critic.per_action else 1
        return self.cell.resolved_policy.critic(outputs)

    def _optimiser(self) -> Any:
        return Optimiser(self.critic.optimiser, self.critic.learning_rate).build(self.network)

    def init(self, seed: jax.Array) -> CriticState:
        """The critic before the first episode; it depends on the seed alone."""
        key = jax.random.fold_in(jax.random.key(seed), jnp.uint32(OWN_STREAM))
        params = self.network.init(key)
        return CriticState(params, self._optimiser().init(params))

    def estimates(self, own: CriticState, learner: Params, batch: Batch) -> Estimates:
        """What the critic says of the whole batch; the old log-probs of the batch are the actor's."""
        values, action_values = self._values(own.params, learner, batch)
        log_ratios = None
        if self.cell.staleness.delay and self.critic.returns in ("vtrace", "retrace"):
            read = self.cell.method.rollout.log_probs
            log_probs = evaluated(self.cell.resolved_policy, learner, read, batch)
            log_ratios = self.parallel.all_gather(log_probs) - batch.group.log_probs_old
        found = Estimates(values, action_values, log_ratios)
        return jax.tree.map(jax.lax.stop_gradient, found)

    def _values(
        self, params: Params, learner: Params, batch: Batch
    ) -> tuple[jax.Array, jax.Array | None]:
        """V of each state and, with one output per action, Q of each sampled token."""
        gather = self.parallel.all_gather
        if not self.critic.per_action:
            return gather(evaluated(self.network, params, state_values, batch)), None
        q = evaluated(self.network, params, every_output, batch)
        pi = jax.nn.softmax(evaluated(self.cell.resolved_policy, learner, every_output, batch))
        return gather((pi * q).sum(-1)), gather(select(q, batch.candidates[..., 0]))

    def fitted(self, own: CriticState, batch: Batch, targets: jax.Array) -> CriticState:
        """The critic after its steps on the batch. targets: [B, K, T] of the whole batch."""
        read = values_of_taken if self.critic.per_action else state_values
        mask, optimiser = batch.group.mask, self._optimiser()
        problem = BatchLoss(
            self.network,
            read,
            batch,
            lambda values: value_loss(self.parallel.all_gather(values), targets, mask),
        )

        def step(state: CriticState, _: None) -> tuple[CriticState, None]:
            grads = value_and_grad(problem, state.params, self.block, self.axis)[1]
            grads = self.parallel.all_sum(grads)
            updates, inner = optimiser.update(grads, state.optimiser, state.params)
            return CriticState(optax.apply_updates(state.params, updates), inner), None

        return jax.lax.scan(step, own, length=self.critic.epochs)[0]


def every_output(first: jax.Array, rest: jax.Array | None, batch: Batch) -> jax.Array:
    """[B, S, T, V]"""
    return batch.along(first, rest)


def state_values(first: jax.Array, rest: jax.Array | None, batch: Batch) -> jax.Array:
    """[B, S, T] of a network with one output."""
    return batch.along(first, rest)[..., 0]


def values_of_taken(first: jax.Array, rest: jax.Array | None, batch: Batch) -> jax.Array:
    """[B, S, T] the output of each action that was taken."""
    return select(batch.along(first, rest), batch.candidates[..., 0])

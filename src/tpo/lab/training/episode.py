"""One episode of a cell: fresh contexts, rollouts, then E gradient epochs on that one batch."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax.flatten_util import ravel_pytree

from tpo.groups import Groups
from tpo.lab.policies import Params
from tpo.lab.rollouts import Actor, Batch
from tpo.lab.rollouts.data_parallel import UNSHARDED, DataParallel
from tpo.lab.tasks import Contexts
from tpo.lab.training import measures
from tpo.lab.training.cell import Cell
from tpo.lab.training.constrained import mean_kl
from tpo.lab.training.critic_update import CriticState, CriticUpdate
from tpo.lab.training.gradient import BatchLoss, evaluated, value_and_grad
from tpo.lab.training.measures import Metrics
from tpo.objectives import monte_carlo
from tpo.objectives.advantages import outcome_rewards


class State(NamedTuple):
    """What one episode passes to the next; a pytree of arrays."""

    seed: jax.Array
    params: Params
    optimiser: Any
    past: Params | None
    """[D+1, ...] the parameters at the start of the last D+1 episodes; None unless the actor lags."""
    critic: CriticState | None = None
    """None unless the cell has a critic."""


@dataclass(frozen=True)
class Learner:
    """A cell made into functions: `init` and `episode`.

    block: rows of paths computed at a time. axis: the name of the vmapped axis of seeds, if any.
    parallel: how the contexts of a batch are divided over devices.
    """

    cell: Cell
    block: int
    axis: str | None = None
    parallel: DataParallel = UNSHARDED

    def init(self, seed: jax.Array) -> State:
        """The state before the first episode; parameters and data depend on the seed alone."""
        params = self.cell.resolved_policy.init(jax.random.key(seed))
        delay = self.cell.staleness.delay
        past = None
        if delay:
            past = jax.tree.map(lambda x: jnp.broadcast_to(x, (delay + 1, *x.shape)), params)
        critic = self._critic.init(seed) if self._critic else None
        return State(seed, params, self._optimiser().init(params), past, critic)

    @property
    def _critic(self) -> CriticUpdate | None:
        critic = self.cell.resolved_critic
        if critic is None:
            return None
        return CriticUpdate(self.cell, critic, self.block, self.axis, self.parallel)

    def _optimiser(self) -> Any:
        return self.cell.optimiser.build(self.cell.resolved_policy)

    def episode(self, state: State, data: Any, index: jax.Array) -> tuple[State, Metrics]:
        """The state after episode `index`, and its metrics."""
        cell, task = self.cell, self.cell.task
        key = jax.random.fold_in(jax.random.key(state.seed), index)
        for_contexts, for_actions, for_lag = jax.random.split(key, 3)
        contexts = self.parallel.shard(task.contexts(data, for_contexts, cell.budget.batch))
        params, past = self._actor_params(state, index, for_lag)
        actor = Actor(cell.actor_policy, params, self._baseline_params(state, params))
        batch = cell.method.rollout.gather(actor, task, contexts, for_actions, self.parallel)
        batch, critic, of_critic = self._evaluated_by_critic(state, batch)
        if cell.anchored_at_learner:
            batch = self._anchored(state.params, batch)
        objective = cell.method.build()
        if objective.uses_progress:
            batch = batch._replace(group=self._with_progress(batch.group, index))
        prepared = objective.prepare(batch.group)
        params, optimiser, grads = self._policy_update(
            state,
            index,
            batch,
            lambda log_probs: objective.loss(self.parallel.all_gather(log_probs), prepared),
        )
        metrics = measures.of_batch(batch, prepared)
        metrics["distinct"] = self.parallel.all_sum(metrics["distinct"])
        metrics["gradient_norm"] = grads[0]
        metrics |= self._extra(state.params, params, contexts, grads[1])
        metrics |= self._evaluated(params, data, index) | of_critic
        return State(state.seed, params, optimiser, past, critic), metrics

    def _with_progress(self, group: Groups, index: jax.Array) -> Groups:
        """The group with the share of the episodes that are done."""
        share = index / max(self.cell.budget.episodes - 1, 1)
        dtype, B = group.log_probs_old.dtype, group.scores.shape[0]
        return dataclasses.replace(group, progress=jnp.full(B, share, dtype))

    def _evaluated_by_critic(
        self, state: State, batch: Batch
    ) -> tuple[Batch, CriticState | None, Metrics]:
        """The batch with the critic's values, the critic after its steps on it, and its metrics.

        A reward that waits for the end of an episode is given at its last token.
        """
        update = self._critic
        if update is None or state.critic is None:
            return batch, None, {}
        found = update.estimates(state.critic, state.params, batch)
        tokens = batch.group.token_scores if self.cell.task.dense else None
        group = dataclasses.replace(batch.group, values=found.values, token_scores=tokens)
        rewards = outcome_rewards(group)
        targets = update.critic.targets(rewards, found, group.mask)
        returns = monte_carlo(rewards, update.critic.gamma, group.mask)
        critic = update.fitted(state.critic, batch, targets)
        return batch._replace(group=group), critic, measures.of_critic(found.values, returns)

    def _actor_params(
        self, state: State, index: jax.Array, key: jax.Array
    ) -> tuple[Params, Params | None]:
        """The actor's parameters, and the history including the learner's of this episode."""
        if state.past is None:
            return state.params, None
        delay = self.cell.staleness.delay
        lag = jax.random.randint(key, (), 0, delay + 1) if self.cell.staleness.uniform else delay
        lag = jnp.minimum(lag, index)
        slot = index % (delay + 1)
        past = jax.tree.map(lambda old, new: old.at[slot].set(new), state.past, state.params)
        return jax.tree.map(lambda x: x[(index - lag) % (delay + 1)], past), past

    def _baseline_params(self, state: State, actor: Params) -> tuple[Params, Params] | None:
        """Of the two policies whose agreement is the expected-reward baseline; None without a lag."""
        if state.past is None:
            return None
        return {
            "learner": (state.params, state.params),
            "actor": (actor, actor),
            "crossed": (actor, state.params),
        }[self.cell.staleness.baseline]

    def _anchored(self, params: Params, batch: Batch) -> Batch:
        """The batch with the learner's own log-probs as the old ones; a correction compares the actor's."""
        log_probs = evaluated(
            self.cell.resolved_policy, params, self.cell.method.rollout.log_probs, batch
        )
        log_probs = jax.lax.stop_gradient(self.parallel.all_gather(log_probs))
        group = dataclasses.replace(batch.group, log_probs_old=log_probs)
        if "log_probs_rollout" in self.cell.method.build().needs:
            group = dataclasses.replace(group, log_probs_rollout=batch.group.log_probs_old)
        return batch._replace(group=group)

    def _policy_update(
        self,
        state: State,
        index: jax.Array,
        batch: Batch,
        loss: Callable[[jax.Array], jax.Array],
    ) -> tuple[Params, Any, tuple[jax.Array, Params]]:
        """`_epochs`; while only the critic learns the policy is frozen, and its gradient counts as 0."""
        update = self._critic
        if update is None or not update.critic.pretrain:
            return self._epochs(state, batch, loss)

        def nothing() -> tuple[Params, Any, tuple[jax.Array, Params]]:
            first = jax.tree.map(jnp.zeros_like, state.params) if self.cell.measures.against else {}
            return state.params, state.optimiser, (jnp.float32(0.0), first)

        return jax.lax.cond(
            index < update.critic.pretrain, nothing, lambda: self._epochs(state, batch, loss)
        )

    def _epochs(
        self, state: State, batch: Batch, loss: Callable[[jax.Array], jax.Array]
    ) -> tuple[Params, Any, tuple[jax.Array, Params]]:
        """Parameters and optimiser after E epochs; norm and value of the first epoch's gradient."""
        optimiser = optax.with_extra_args_support(self._optimiser())
        policy = self.cell.resolved_policy

        def value(params: Params) -> jax.Array:
            return loss(evaluated(policy, params, self.cell.method.rollout.log_probs, batch))

        def gradient(params: Params) -> Params:
            rollout = self.cell.method.rollout
            problem = BatchLoss(policy, rollout.log_probs, batch, loss)
            _, grads = value_and_grad(problem, params, self.block, self.axis)
            found: Params = self.parallel.all_sum(grads)
            return found

        def epoch(carry: tuple[Params, Any], _: None) -> tuple[tuple[Params, Any], jax.Array]:
            params, inner = carry
            grads = gradient(params)
            updates, inner = optimiser.update(
                grads, inner, params, loss=value, kl=mean_kl(policy, batch.inputs)
            )
            norm = jnp.linalg.norm(ravel_pytree(grads)[0])
            return (optax.apply_updates(params, updates), inner), norm

        start = (state.params, state.optimiser)
        (params, inner), norms = jax.lax.scan(epoch, start, length=self.cell.method.epochs)
        first = gradient(state.params) if self.cell.measures.against else {}
        return params, inner, (norms[0], first)

    def _extra(self, before: Params, after: Params, contexts: Contexts, grads: Params) -> Metrics:
        """Exact quantities of one-action tasks, if they are cheap or requested."""
        cell, task, policy = self.cell, self.cell.task, self.cell.resolved_policy
        found: Metrics = {}
        if task.observes[0] == "index" or hasattr(task, "right"):
            found["expected_error"] = measures.expected_error(task, policy, before, contexts)
            found["error_after"] = measures.expected_error(task, policy, after, contexts)
        if cell.measures.against:
            found["misalignment"] = measures.misalignment(
                cell.measures.against, task, policy, before, contexts, grads
            )
        return found

    def _evaluated(self, params: Params, data: Any, index: jax.Array) -> Metrics:
        """The greedy error on held-out contexts, every `evaluate_every` episodes; NaN between."""
        every, task = self.cell.measures.evaluate_every, self.cell.task
        held_out = task.held_out(data) if every else None
        if held_out is None:
            return {}
        error = jax.lax.cond(
            (index + 1) % every == 0,
            lambda: measures.greedy_error(task, self.cell.resolved_policy, params, held_out),
            lambda: jnp.float32(jnp.nan),
        )
        return {"test_error": error}

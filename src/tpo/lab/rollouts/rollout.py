"""Rollout: from contexts to a `Batch` of scored `Groups`, with what an update needs to evaluate them again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from tpo.groups import Groups
from tpo.lab.names import FAILED_GROUPS
from tpo.lab.policies.base import Params, Policy
from tpo.lab.policies.layers import select
from tpo.lab.rollouts.data_parallel import UNSHARDED, DataParallel
from tpo.lab.rollouts.distinct import Distinct, distinct, every
from tpo.lab.rollouts.rollout_kinds import KINDS, Drawn, Kind, Scored
from tpo.lab.rollouts.sampler import Shape, sample
from tpo.lab.tasks.base import Contexts, Task


class Batch(NamedTuple):
    """One episode's rollouts: what the objective sees, and what the update evaluates.

    With data parallelism, group and rewards are of the whole batch, the rest of this device's shard.
    """

    group: Groups
    inputs: Any
    candidates: jax.Array
    """[B, S, T, W]"""
    distinct: Distinct
    rewards: jax.Array
    """[B, S, T] of the actions taken."""

    def along(self, first: jax.Array, rest: jax.Array | None) -> jax.Array:
        """[B, S, T, V] at each prefix of each stream what a network says there.

        first: [B, V], rest: [N, T-1, V] in the order of the batch's paths; None if T = 1.
        """
        b, s = self.candidates.shape[:2]
        start = jnp.broadcast_to(first[:, None, None], (b, s, 1, first.shape[-1]))
        if rest is None:
            return start
        return jnp.concatenate([start, self.distinct.of_streams(rest)], axis=2)


class Actor(NamedTuple):
    """The policy that samples, with its parameters."""

    policy: Policy
    params: Params
    baseline_params: tuple[Params, Params] | None = None
    """Of the two policies of an "expected" baseline; by default both are the actor's."""


BASELINES = ("expected", "greedy")


def greedy_rewards(actor: Actor, task: Task, contexts: Contexts) -> jax.Array:
    """[B] the mean reward of the most probable actions."""
    shape = Shape(1, task.length, 1)
    drawn = sample(actor.policy, actor.params, contexts.inputs, shape, None)
    return task.rewards(contexts.answer, drawn.taken).mean((1, 2))


@dataclass(frozen=True)
class Rollout:
    """How to sample: the kind, the group size K for kinds that have one, and the baseline.

    baseline: a number; "expected", Σ pi² over the actions; "greedy", the reward of one greedy sample per
    context, which is not trained on; or None for the objective's own. failed: what happens to a group without a
    score above 1/2: "learn" from it, "drop" it, or "anchor" the policy there: all of its scores are 0.
    """

    kind: str = "sequence"
    group_size: int = 8
    baseline: float | str | None = None
    failed: str = "learn"

    def __post_init__(self) -> None:
        if self.failed not in FAILED_GROUPS:
            raise ValueError(
                f"failed is {self.failed!r}, expected one of {', '.join(FAILED_GROUPS)}"
            )
        if self.kind not in KINDS:
            raise ValueError(f"kind is {self.kind!r}, expected one of {', '.join(KINDS)}")
        if self.group_size < 1:
            raise ValueError(f"group_size is {self.group_size}, expected at least 1")
        if isinstance(self.baseline, str) and self.baseline not in BASELINES:
            raise ValueError(
                f"baseline is {self.baseline!r}, expected 'expected', 'greedy', a number or None"
            )
        if self.baseline == "greedy" and self.kind not in ("single", "sequence"):
            raise ValueError(
                f"baseline is 'greedy', and kind {self.kind!r} does not group the episodes of one context: "
                "use 'single' or 'sequence'"
            )

    @property
    def rule(self) -> Kind:
        return KINDS[self.kind]

    def check(self, task: Task) -> None:
        """Raise if this kind of rollout does not apply to the task."""
        if self.rule.one_step and task.length != 1:
            raise ValueError(
                f"kind {self.kind!r} is for tasks of one action, and this one has {task.length}: "
                "use 'single', 'sequence' or 'token'"
            )
        if self.kind == "token" and not task.dense:
            raise ValueError(
                "kind 'token' scores each token when it is taken, and this task's reward waits for "
                "the end: use 'sequence', or a dense reward"
            )

    def shape(self, task: Task) -> Shape:
        many = self.rule.many
        return Shape(
            self.group_size if many == "streams" else 1,
            task.length,
            self.group_size if many == "width" else 1,
        )

    def gather(
        self,
        actor: Actor,
        task: Task,
        contexts: Contexts,
        key: jax.Array,
        parallel: DataParallel = UNSHARDED,
    ) -> Batch:
        """Sample, score and arrange; with data parallelism, the contexts are this device's shard."""
        policy, params, baseline_params = actor
        inputs, answer = contexts
        drawn = sample(policy, params, inputs, self.shape(task), key, parallel)
        rewards = task.rewards(answer, drawn.taken)
        all_log_probs = jax.nn.log_softmax(policy.prefill(params, inputs)[0])
        pair = (all_log_probs, all_log_probs)
        if baseline_params is not None and self.baseline == "expected":
            first, second = (
                jax.nn.log_softmax(policy.prefill(p, inputs)[0]) for p in baseline_params
            )
            pair = (first, second)
        baseline = self._baseline(*pair)
        if self.baseline == "greedy":
            baseline = greedy_rewards(actor, task, contexts)
        scored = self.rule.score(Drawn(drawn, rewards, all_log_probs, baseline, task, answer))
        merged = self.rule.many == "streams" and task.length > 1
        paths = distinct(inputs, drawn.taken, task.actions) if merged else every(drawn.taken)
        group = self._group(parallel.all_gather(scored), parallel.all_gather(baseline))
        return Batch(group, inputs, scored.candidates, paths, parallel.all_gather(rewards))

    def _baseline(self, first: jax.Array, second: jax.Array) -> jax.Array | None:
        """[B] the number, or Σ_a first(a)·second(a): how often actions of the two policies agree."""
        if self.baseline in (None, "greedy"):
            return None
        if isinstance(self.baseline, str):
            return jnp.exp(first + second).sum(-1)
        return jnp.full(first.shape[0], self.baseline, first.dtype)

    def _group(self, scored: Scored, baseline: jax.Array | None) -> Groups:
        scores = self.rule.arrange(scored.scores)
        log_probs = self.rule.arrange(scored.log_probs)
        given = baseline is not None and baseline.shape[0] == scores.shape[0]
        solved = (scores > 0.5).any((1, 2), keepdims=True)
        if self.failed == "anchor":
            scores = jnp.where(solved, scores, 0.0)
        return Groups(
            log_probs_old=log_probs,
            scores=scores.mean(-1),
            valid=jnp.broadcast_to(solved[..., 0], scores.shape[:2])
            if self.failed == "drop"
            else None,
            token_scores=scores if scores.shape[-1] > 1 else None,
            baseline=baseline if given else None,
        )

    def log_probs(self, first: jax.Array, rest: jax.Array | None, batch: Batch) -> jax.Array:
        """[groups, K, T] of the batch's candidates, from logits after each prefix.

        first: [B, V], rest: [N, T-1, V] in the order of the batch's paths; None if T = 1.
        """
        after = None if rest is None else jax.nn.log_softmax(rest)
        prefixes = batch.along(jax.nn.log_softmax(first), after)
        return self.rule.arrange(select(prefixes[..., None, :], batch.candidates))

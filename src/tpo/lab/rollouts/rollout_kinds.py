"""The kinds of rollout. Each says how much to sample, and how that becomes `Groups`.

| kind       | candidates of one group                                  | groups        |
|------------|----------------------------------------------------------|---------------|
| `single`   | the one sampled episode                                  | B of 1        |
| `sequence` | K sampled episodes of a context                          | B of K        |
| `token`    | K next tokens at one prefix, the first of them taken     | B·T of K      |
| `batch`    | the sampled actions of the whole batch                   | 1 of B        |
| `vector`   | all A actions; the sampled one scores R - b, others 0    | B of A        |
| `pooled`   | all A actions; `vector` scores averaged over the batch   | 1 of A        |
| `signed`   | the sampled action, its score z-scored among all A       | B of 1        |
| `oracle`   | all A actions, each with its true reward                 | B of A        |

The last five are for tasks of one action. `vector` is the paper's bandit form of TPO, `signed` its
Group PG, `batch` its GRPO; `oracle` serves supervised and exact population updates.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from tpo.groups import standardize
from tpo.lab.rollouts.sampler import Sample
from tpo.lab.tasks.base import Task


class Drawn(NamedTuple):
    """Samples with what a kind needs to score them."""

    sample: Sample
    rewards: jax.Array
    """[B, S, T] of the actions taken."""
    all_log_probs: jax.Array
    """[B, A] of every first action, under the policy that sampled."""
    baseline: jax.Array | None
    """[B]"""
    task: Task
    answer: Any


class Scored(NamedTuple):
    """Candidates [B, S, T, W], each with a score, before they are arranged into groups."""

    candidates: jax.Array
    log_probs: jax.Array
    scores: jax.Array


def by_episode(x: jax.Array) -> jax.Array:
    """[B, S, T, 1] -> [B, S, T]: a group per context, a candidate per stream."""
    return x[..., 0]


def by_prefix(x: jax.Array) -> jax.Array:
    """[B, 1, T, W] -> [B*T, W, 1]: a group per prefix, a candidate per next token."""
    return x.reshape(-1, x.shape[-1], 1)


def as_one(x: jax.Array) -> jax.Array:
    """[B, 1, 1, 1] -> [1, B, 1]: the whole batch as a group."""
    return x.reshape(1, -1, 1)


def of_first(x: jax.Array) -> jax.Array:
    """[B, 1, 1, A] -> [1, A, 1]: the group of a context that is the same throughout the batch."""
    return by_prefix(x[:1])


def episodes(drawn: Drawn) -> Scored:
    """The sampled actions with their rewards."""
    return Scored(*drawn.sample, drawn.rewards[..., None])


def next_tokens(drawn: Drawn) -> Scored:
    """Each candidate token with its reward if it replaced the token that was taken."""
    candidates = drawn.sample.candidates
    b, _, t, w = candidates.shape
    taken = jnp.broadcast_to(drawn.sample.taken[:, 0, None, None], (b, t, w, t))
    here = jnp.eye(t, dtype=bool)[:, None]
    replaced = jnp.where(here, candidates.reshape(b, t, w, 1), taken)
    rewards = drawn.task.rewards(drawn.answer, replaced.reshape(b, t * w, t))
    scores = jnp.where(here, rewards.reshape(b, t, w, t), 0.0).sum(-1)
    return Scored(*drawn.sample, scores[:, None])


def true_rewards(drawn: Drawn) -> Scored:
    """All actions, each with its reward."""
    b, a = drawn.all_log_probs.shape
    actions = jnp.broadcast_to(jnp.arange(a), (b, a))
    rewards = drawn.task.rewards(drawn.answer, actions[..., None])
    return _all_actions(drawn, rewards[..., 0])


def taken_only(drawn: Drawn) -> Scored:
    """All actions; the taken one scores R - b, the others 0."""
    return _all_actions(drawn, _vector(drawn))


def pooled(drawn: Drawn) -> Scored:
    """All actions, with the scores of `taken_only` averaged over the batch."""
    vector = _vector(drawn)
    return _all_actions(drawn, jnp.broadcast_to(vector.mean(0), vector.shape))


def signed(drawn: Drawn) -> Scored:
    """The taken action with its z-score among all actions: ±sqrt(A - 1)."""
    taken = drawn.sample.candidates[:, 0, 0]
    scores = jnp.take_along_axis(standardize(_vector(drawn)), taken, axis=-1)
    return Scored(*drawn.sample, scores[:, None, None])


def _vector(drawn: Drawn) -> jax.Array:
    """[B, A] (R - b)·e_a for the taken action a."""
    reward = drawn.rewards[:, 0, 0]
    advantage = reward if drawn.baseline is None else reward - drawn.baseline
    actions = drawn.all_log_probs.shape[-1]
    return advantage[:, None] * jax.nn.one_hot(drawn.sample.taken[:, 0, 0], actions)


def _all_actions(drawn: Drawn, scores: jax.Array) -> Scored:
    actions = jnp.broadcast_to(jnp.arange(scores.shape[-1]), scores.shape)
    return Scored(*(x[:, None, None] for x in (actions, drawn.all_log_probs, scores)))


class Kind(NamedTuple):
    """How to sample a group of K, how to score it, and how to arrange it as [groups, K, T]."""

    many: str
    """What the group size multiplies: "streams", "width" (candidates per prefix), or "" for a single sample."""
    score: Callable[[Drawn], Scored]
    arrange: Callable[[jax.Array], jax.Array]
    one_step: bool = False


KINDS = {
    "single": Kind("", episodes, by_episode),
    "sequence": Kind("streams", episodes, by_episode),
    "token": Kind("width", next_tokens, by_prefix),
    "batch": Kind("", episodes, as_one, one_step=True),
    "vector": Kind("", taken_only, by_prefix, one_step=True),
    "pooled": Kind("", pooled, of_first, one_step=True),
    "signed": Kind("", signed, by_episode, one_step=True),
    "oracle": Kind("", true_rewards, by_prefix, one_step=True),
}

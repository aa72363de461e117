"""Exact values, occupancy and policy gradient of a small Markov decision process, and its rollouts; NumPy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np


class Rollouts(NamedTuple):
    """Sampled episodes, each [episodes, steps]."""

    states: np.ndarray
    actions: np.ndarray
    rewards: np.ndarray


@dataclass(frozen=True, eq=False)
class MDP:
    """A finite Markov decision process, discount below 1. A policy is an array [S, A] of probabilities."""

    transitions: np.ndarray
    """[S, A, S] the probability of each next state"""
    rewards: np.ndarray
    """[S, A] the expected reward of an action in a state"""
    start: np.ndarray
    """[S] the distribution of the first state"""
    gamma: float

    def values(self, policy: np.ndarray) -> np.ndarray:
        """[S] V: the solution of V = r + γPV, with r and P averaged over the policy's actions."""
        return np.linalg.solve(self._discounting(policy), (policy * self.rewards).sum(-1))

    def action_values(self, policy: np.ndarray) -> np.ndarray:
        """[S, A] Q = r + γPV, the reward and the mean value of the next state."""
        return self.rewards + self.gamma * self.transitions @ self.values(policy)

    def advantages(self, policy: np.ndarray) -> np.ndarray:
        """[S, A] A = Q - V; its mean under the policy is 0 in every state."""
        return self.action_values(policy) - self.values(policy)[:, None]

    def occupancy(self, policy: np.ndarray) -> np.ndarray:
        """[S] d(s) = Σ_t γ^t P(s_t = s); it sums to 1/(1 - γ)."""
        return np.linalg.solve(self._discounting(policy).T, self.start)

    def performance(self, policy: np.ndarray) -> float:
        """J: the expected discounted return from the first state."""
        return float(self.start @ self.values(policy))

    def gradient(self, policy: np.ndarray) -> np.ndarray:
        """[S, A] dJ/d logits of a softmax policy: d(s)·pi(s, a)·A(s, a), the policy-gradient theorem."""
        return self.occupancy(policy)[:, None] * policy * self.advantages(policy)

    def rollouts(
        self, policy: np.ndarray, episodes: int, steps: int, rng: np.random.Generator
    ) -> Rollouts:
        """Episodes of that many steps, sampled from the first state on."""
        state = _sampled(np.broadcast_to(self.start, (episodes, len(self.start))), rng)
        kept = []
        for _ in range(steps):
            action = _sampled(policy[state], rng)
            kept.append((state, action, self.rewards[state, action]))
            state = _sampled(self.transitions[state, action], rng)
        return Rollouts(*(np.stack(one, axis=1) for one in zip(*kept, strict=True)))

    def _discounting(self, policy: np.ndarray) -> np.ndarray:
        """[S, S] I - γP under the policy."""
        moves = np.einsum("sa,sat->st", policy, self.transitions)
        return np.eye(len(self.start)) - self.gamma * moves


def _sampled(probabilities: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """[N] one index per row of [N, n]."""
    below = rng.random((len(probabilities), 1)) < np.cumsum(probabilities, axis=-1)[:, :-1]
    return np.asarray(probabilities.shape[-1] - 1 - below.sum(-1))


def chain(states: int = 5, gamma: float = 0.9, slip: float = 0.1) -> MDP:
    """A row of states with the actions left (0) and right (1); every step taken in the last state pays 1.

    Episodes start in state 0. A move fails with probability `slip`, and then the state stays the same.
    """
    transitions = np.zeros((states, 2, states))
    for s in range(states):
        for action, to in enumerate((max(s - 1, 0), min(s + 1, states - 1))):
            transitions[s, action, to] += 1 - slip
            transitions[s, action, s] += slip
    rewards = np.zeros((states, 2))
    rewards[-1] = 1.0
    return MDP(transitions, rewards, np.eye(states)[0], gamma)

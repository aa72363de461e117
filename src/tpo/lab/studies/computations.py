"""Computations without a training curve: the talk's numbers, and the mechanism on MNIST."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from tpo.diagnostics import population
from tpo.groups import standardize
from tpo.lab.policies import MLP
from tpo.lab.studies.method_specs import bandit_method
from tpo.lab.tasks import Digits
from tpo.lab.training import Budget, Cell, Optimiser
from tpo.lab.training.episode import Learner
from tpo.objectives.target_matching import target
from tpo.storage.store import Curves

BINS = (0.0, 0.25, 0.5, 0.75, 1.0)


class Computation:
    """A result with a key, a description and arrays; equal computations have equal keys."""

    name: ClassVar[str]

    def to_json(self) -> dict[str, Any]:
        """A description of the computation as plain values."""
        return {"computation": self.name, **asdict(self)}  # type: ignore[call-overload]

    @property
    def key(self) -> str:
        text = json.dumps(self.to_json(), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def arrays(self) -> Curves:
        """The result."""
        raise NotImplementedError


@dataclass(frozen=True)
class Talk(Computation):
    """The three diagnostics of the talk, and one update from each point of a simplex."""

    name: ClassVar[str] = "talk"
    p_old: tuple[float, ...] = population.RARE
    """of the rare failure"""

    def arrays(self) -> Curves:
        share = population.gradient_share()
        rewards = (0, 1, 1, 0)
        bound = population.clip_bound()
        return {
            "share_coefficient": np.array([share[m].coefficient for m in population.METHODS]),
            "share_gradient": np.array([share[m].gradient for m in population.METHODS]),
            "beta": np.array(
                [float(population.population_beta(m, 0.1, 10)) for m in population.METHODS]
            ),
            "odds_factor": np.array(population.odds_factor(10)),
            "wall_high": np.array(population.clip_bound(p=0.9).clipped),
            "rare_p": np.array(self.p_old),
            "rare_rewards": np.array(rewards),
            "rare": population.rare_failure(self.p_old, rewards),
            "wall_sizes": np.array(list(bound.target)),
            "wall_clipped": np.full(len(bound.target), bound.clipped),
            "wall_target": np.array(list(bound.target.values())),
            **simplex_updates(),
        }


def simplex_updates(steps: int = 8) -> Curves:
    """From a grid of p_old, scores (1, 0, 0): TPO's target, and one gradient step of TPO and of GRPO.

    A step is of length one in logit space. At the snapshot the gradient by the logits is p - q for
    TPO and -u for GRPO with every candidate once.
    """
    points = [(i, j, steps - i - j) for i in range(1, steps) for j in range(1, steps - i)]
    p = np.array(points) / steps
    u = standardize(np.tile(np.array([1.0, 0.0, 0.0]), (len(p), 1)))
    q = np.asarray(target(np.log(p), u))
    return {
        "simplex_from": p,
        "simplex_target": q,
        "simplex_tpo": _softmax(np.log(p) + (q - p)),
        "simplex_grpo": _softmax(np.log(p) + u),
    }


def _softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(-1, keepdims=True))
    return np.asarray(e / e.sum(-1, keepdims=True))


@dataclass(frozen=True)
class Mechanism(Computation):
    """Surplus gain of a method's expected update g over beta_sym(p)·(e_y - pi), by concentration.

    The method trains a network for `episodes` steps; on each misclassified test image its expected
    update g in logit space raises p_y to first order by g·dp_y. Subtracted is the gain of the symmetric
    surrogate at the same policy (`symmetric_beta`). Arrays: surplus, gain [seeds, bins], NaN in
    empty bins; count [seeds, bins]. Source: arXiv 2604.06159, Fig. 5b and appendix C.
    """

    name: ClassVar[str] = "surplus gain"

    method: str
    data: str
    hidden: tuple[int, ...]
    batch: int
    episodes: int
    seeds: int

    def arrays(self) -> Curves:
        found = [self._binned(*policy) for policy in self._trained_policies()]
        return {name: np.stack([one[name] for one in found]) for name in found[0]}

    def _binned(self, pi: np.ndarray, y: np.ndarray) -> Curves:
        wrong = pi.argmax(-1) != y
        pi, y = pi[wrong], y[wrong]
        gain = first_order_gain(self.method, pi, y)
        surplus = gain - symmetric_gain(self.method, pi, y)
        c = concentration(pi, y)
        index = np.digitize(c, BINS[1:-1])
        names = {"surplus": surplus, "gain": gain}
        binned = {k: np.array([_mean(v[index == i]) for i in range(4)]) for k, v in names.items()}
        return {**binned, "count": np.bincount(index, minlength=4)}

    def _trained_policies(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """For each seed [N, A] the trained network's policy on the test images, and their labels."""
        task = Digits(self.data)
        data = task.load()
        policy = MLP(task.observes[1], task.actions, self.hidden)
        cell = Cell(task, bandit_method(self.method), Budget(self.batch, self.episodes),
                    Optimiser("adam", 1e-3), policy=policy)  # fmt: skip
        learner = Learner(cell, block=self.batch)

        def trained(data: Any, seed: jax.Array) -> Any:
            state = learner.init(seed)
            return jax.lax.fori_loop(
                0, self.episodes, lambda i, s: learner.episode(s, data, jnp.int32(i))[0], state
            )

        train, held_out = jax.jit(trained), task.held_out(data)
        for seed in range(self.seeds):
            params = train(data, jnp.uint32(seed)).params
            pi = jax.nn.softmax(policy.prefill(params, held_out.inputs)[0])
            yield np.asarray(pi, float), np.asarray(held_out.answer)


def _mean(x: np.ndarray) -> float:
    return float(x.mean()) if len(x) else float("nan")


def concentration(pi: np.ndarray, y: np.ndarray) -> np.ndarray:
    """c = max wrong/(1 - p_y): the share of the wrong mass on one class."""
    right = pi[np.arange(len(y)), y]
    wrong = np.where(np.eye(pi.shape[1], dtype=bool)[y], 0.0, pi)
    return wrong.max(-1) / (1 - right)


def symmetric_policy(pi: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The policy with the same p_y and equal probabilities of all wrong classes."""
    right = pi[np.arange(len(y)), y][:, None]
    correct = np.eye(pi.shape[1], dtype=bool)[y]
    return np.where(correct, right, (1 - right) / (pi.shape[1] - 1))


def symmetric_beta(method: str, pi: np.ndarray, y: np.ndarray) -> np.ndarray:
    """beta_sym(p) = p·(w_y - w_wrong), [N]: with equal wrong classes E[g] is beta_sym·(e_y - pi)."""
    even, correct = symmetric_policy(pi, y), np.eye(pi.shape[1])[y]
    weights = WEIGHTS[method](even, correct) * np.ones_like(pi)
    right = (weights * correct).sum(-1)
    wrong = (weights * (1 - correct)).sum(-1) / (pi.shape[1] - 1)
    return np.asarray((even * correct).sum(-1) * (right - wrong))


def symmetric_gain(method: str, pi: np.ndarray, y: np.ndarray) -> np.ndarray:
    """dp_y·beta_sym(p)(e_y - pi) = p·beta_sym(p)·‖e_y - pi‖², [N]: the surrogate's gain at this policy."""
    correct = np.eye(pi.shape[1])[y]
    square = ((correct - pi) ** 2).sum(-1)
    return np.asarray((pi * correct).sum(-1) * symmetric_beta(method, pi, y) * square)


def first_order_gain(method: str, pi: np.ndarray, y: np.ndarray) -> np.ndarray:
    """dp_y·E[g], with dp_y = p_y(e_y - pi) and the sampled action a ~ pi; [N] for pi [N, A]."""
    correct = np.eye(pi.shape[1])[y]
    weights = pi * WEIGHTS[method](pi, correct)
    update = weights - weights.sum(-1, keepdims=True) * pi
    right = (pi * correct).sum(-1, keepdims=True)
    return np.asarray((right * (correct - pi) * update).sum(-1))


def _tpo(pi: np.ndarray, correct: np.ndarray) -> np.ndarray:
    arms = pi.shape[-1]
    up = population.population_beta("tpo", pi, arms)
    return np.asarray(np.where(correct > 0, up, -population.population_gamma(pi, arms)))


def _pg(pi: np.ndarray, correct: np.ndarray) -> np.ndarray:
    return np.asarray(correct - (pi**2).sum(-1, keepdims=True))


def _dg(pi: np.ndarray, correct: np.ndarray) -> np.ndarray:
    advantage = _pg(pi, correct)
    return np.asarray(advantage / (1 + pi**advantage))


WEIGHTS: dict[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    "tpo": _tpo,
    "pg": _pg,
    "dg": _dg,
    "group_pg": lambda pi, correct: np.where(correct > 0, 1.0, -1.0) * np.sqrt(pi.shape[-1] - 1),
}
"""The weight on e_a - pi after each action a was sampled."""

"""`Cell`: the declaration of one run. Equal cells give equal curves; a study is a grid of cells."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any

import tpo
from tpo import user_code
from tpo.lab.critics import Critic, critic_for
from tpo.lab.policies import Policy
from tpo.lab.rollouts import Rollout
from tpo.lab.rollouts.faults import Faults, FaultyPolicy
from tpo.lab.tasks import Task
from tpo.lab.training.optimisers import Optimiser
from tpo.lab.training.registry import described, policy_for, rebuilt
from tpo.objectives.base import check_group_size

Options = tuple[tuple[str, Any], ...]


@dataclass(frozen=True)
class Method:
    """An objective with its options, the rollouts it learns from, and its epochs per batch."""

    objective: str = "tpo"
    options: Options = ()
    rollout: Rollout = field(default_factory=Rollout)
    epochs: int = 4

    def __post_init__(self) -> None:
        if self.epochs < 1:
            raise ValueError(f"epochs is {self.epochs}, expected at least 1")

    def build(self) -> tpo.Objective:
        return tpo.objective(self.objective, **dict(self.options))

    def check_group(self) -> None:
        """Raise if the objective lacks what its rollouts must give: candidates to compare, or a baseline."""
        if "baseline" in self.build().needs and self.rollout.baseline is None:
            raise ValueError(
                f"objective {self.objective!r} subtracts a baseline, and the rollout has none: "
                "set baseline='greedy' there"
            )
        if self.rollout.rule.many:
            instead = (
                ", or choose an objective of single samples, such as 'reinforce', 'ppo' or 'dg'"
            )
            check_group_size(self.objective, "group_size", self.rollout.group_size, instead)


@dataclass(frozen=True)
class Budget:
    """B contexts per batch, the number of episodes, and the seeds first_seed, first_seed + 1, ..."""

    batch: int = 100
    episodes: int = 2000
    seeds: int = 1
    first_seed: int = 0

    def __post_init__(self) -> None:
        for name in ("batch", "episodes", "seeds"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}, expected at least 1")
        if self.first_seed < 0:
            raise ValueError(f"first_seed is {self.first_seed}, expected 0 or more")


BASELINES = ("learner", "actor", "crossed")


@dataclass(frozen=True)
class Staleness:
    """The actor has the learner's parameters of `delay` episodes ago.

    uniform: the lag is drawn from 0..delay each episode. anchor: whose log-probs are the objective's old ones:
    the "actor"'s (ratios then correct for the lag) or the "learner"'s (for TPO's target).
    baseline: whose probabilities make an expected-reward baseline, with mu the actor's and pi the learner's:
    "learner", Σ pi²; "actor", Σ mu²; "crossed", Σ mu·pi, the learner's expected reward of the actor's guess.
    """

    delay: int = 0
    uniform: bool = False
    anchor: str = "actor"
    baseline: str = "learner"

    def __post_init__(self) -> None:
        if self.delay < 0:
            raise ValueError(f"delay is {self.delay}, expected 0 or more episodes")
        if self.anchor not in ("actor", "learner"):
            raise ValueError(f"anchor is {self.anchor!r}, expected 'actor' or 'learner'")
        if self.baseline not in BASELINES:
            raise ValueError(
                f"baseline is {self.baseline!r}, expected one of {', '.join(map(repr, BASELINES))}"
            )

    def to_json(self) -> dict[str, Any]:
        """The fields; without a delay no `baseline`, since actor and learner are one."""
        plain = asdict(self)
        if not self.delay:
            del plain["baseline"]
        return plain


@dataclass(frozen=True)
class Measures:
    """What to record beyond each episode's error and diagnostics.

    evaluate_every: episodes between greedy evaluations on held-out contexts; 0 for none.
    against: 1 - cos between the update and the exact gradient of "pg" or of "ce"; "" for none.
    """

    evaluate_every: int = 0
    against: str = ""

    def __post_init__(self) -> None:
        if self.against not in ("", "pg", "ce"):
            raise ValueError(f"against is {self.against!r}, expected 'pg', 'ce' or ''")
        if self.evaluate_every < 0:
            raise ValueError(f"evaluate_every is {self.evaluate_every}, expected 0 or more")


WITH_VALUES = ("single", "sequence")
"""Kinds of rollout whose candidates are whole episodes."""


@dataclass(frozen=True)
class Cell:
    """Everything that a run's numbers depend on."""

    task: Task
    method: Method = field(default_factory=Method)
    budget: Budget = field(default_factory=Budget)
    optimiser: Optimiser = field(default_factory=Optimiser)
    policy: Policy | None = None
    staleness: Staleness = field(default_factory=Staleness)
    measures: Measures = field(default_factory=Measures)
    critic: Critic | None = None
    """By default the objective's, if it needs values."""
    faults: Faults = field(default_factory=Faults)
    """Of the actor, which does not report its log-probs: the old ones are the learner's."""

    def __post_init__(self) -> None:
        self.method.rollout.check(self.task)
        self.method.check_group()
        if self.optimiser.name == "trpo" and self.task.length > 1:
            raise ValueError(
                f"optimiser is 'trpo', which is for tasks of one action, and this one has {self.task.length}: "
                "choose 'muon' or 'adam', or the objective 'trpo_penalty'"
            )
        lags = self.staleness.delay and self.staleness.anchor == "learner"
        if "log_probs_rollout" in self.method.build().needs and not lags:
            raise ValueError(
                f"objective {self.method.objective!r} holds correct, which compares the learner's log-probs "
                "with those of an actor that lags: set Staleness(delay=..., anchor='learner'), or --delay"
            )
        if self.faulty and self.task.length > 1:
            raise ValueError(
                f"faults is {self.faults}, which is for tasks of one action, and this one has "
                f"{self.task.length}: leave it out"
            )
        if self.resolved_critic is not None:
            self._check_critic()

    def _check_critic(self) -> None:
        """Raise if a critic does not fit the rollouts or the policy."""
        kind = self.method.rollout.kind
        if kind not in WITH_VALUES:
            raise ValueError(
                f"kind is {kind!r}, and a critic values the states of whole episodes: use "
                + " or ".join(map(repr, WITH_VALUES))
            )
        if not hasattr(self.resolved_policy, "critic"):
            raise TypeError(
                f"{type(self.resolved_policy).__name__} has no critic(outputs), which returns the same network "
                "with that many values: define it, or choose an objective that needs no critic"
            )

    @property
    def resolved_policy(self) -> Policy:
        """The policy, by default the paper's for such a task."""
        return policy_for(self.task) if self.policy is None else self.policy

    @property
    def faulty(self) -> bool:
        """Whether the actor samples from another policy."""
        return self.faults != Faults()

    @property
    def actor_policy(self) -> Any:
        """The policy that samples."""
        policy = self.resolved_policy
        return FaultyPolicy(policy, self.faults) if self.faulty else policy

    @property
    def anchored_at_learner(self) -> bool:
        """Whether the objective's old log-probs are the learner's own, and not the actor's."""
        return self.faulty or bool(self.staleness.delay and self.staleness.anchor == "learner")

    @property
    def resolved_critic(self) -> Critic | None:
        """The critic, by default the one that is usual for the objective; None if it needs no values."""
        return critic_for(self.method.build()) if self.critic is None else self.critic

    def interaction_matched(self, group_size: int) -> Cell:
        """With as many samples per update as a group method: B·K contexts, learning rate times sqrt(K).

        Only methods with one sample per context change; others are returned as they are.
        """
        if self.method.rollout.kind != "single":
            return self
        rate = self.optimiser.learning_rate * group_size**0.5
        return replace(
            self,
            budget=replace(self.budget, batch=self.budget.batch * group_size),
            optimiser=replace(self.optimiser, learning_rate=rate),
        )

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values, from which `from_json` makes an equal cell."""
        own = {f.name: getattr(self, f.name) for f in fields(self)}
        plain = {k: asdict(v) for k, v in own.items() if k not in ("task", "policy", "critic")}
        if self.resolved_critic is not None:
            plain["critic"] = asdict(self.resolved_critic)
        plain["method"]["options"] = dict(self.method.options)
        if user_code.is_spec(self.method.objective):
            plain["method"]["source"] = user_code.fingerprint(self.method.objective)
        plain["staleness"] = self.staleness.to_json()
        if not self.optimiser.max_grad_norm:
            del plain["optimiser"]["max_grad_norm"]
        if not self.faulty:
            del plain["faults"]
        if self.method.rollout.failed == "learn":
            del plain["method"]["rollout"]["failed"]
        return {"task": described(self.task), "policy": described(self.resolved_policy), **plain}

    @staticmethod
    def from_json(plain: dict[str, Any]) -> Cell:
        """The cell that `to_json` wrote."""
        method = {k: v for k, v in plain["method"].items() if k != "source"}
        method["options"] = tuple(sorted(method["options"].items()))
        method["rollout"] = Rollout(**method["rollout"])
        return Cell(
            task=rebuilt(plain["task"]),
            method=Method(**method),
            budget=Budget(**plain["budget"]),
            optimiser=Optimiser(**plain["optimiser"]),
            policy=rebuilt(plain["policy"]),
            staleness=Staleness(**plain["staleness"]),
            measures=Measures(**plain["measures"]),
            critic=Critic(**plain["critic"]) if "critic" in plain else None,
            faults=Faults(**plain.get("faults", {})),
        )

    @property
    def key(self) -> str:
        """A hash of the content: the same for equal cells, in every process."""
        text = json.dumps(self.to_json(), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

"""The paper's methods by name, with its settings, and TPO of outcomes: what `tpo run --methods` accepts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tpo.lab.rollouts import Rollout
from tpo.lab.training.cell import Method


def _method(objective: str, kind: str, epochs: int = 4, **options: Any) -> Method:
    baseline = options.pop("baseline", None)
    return Method(
        objective, tuple(sorted(options.items())), Rollout(kind, 8, baseline), epochs
    )  # fmt: skip


SEQUENCE_METHODS = {
    "tpo": _method("tpo", "sequence"),
    "tpo_no_anchor": _method("tpo_no_anchor", "sequence"),
    "tpo_outcomes": _method("tpo_outcomes", "sequence"),
    "group_pg": _method("group_pg", "sequence"),
    "grpo": _method("grpo", "sequence", granularity="sequence"),
    "grpo_no_kl": _method("grpo_no_kl", "sequence", granularity="sequence"),
    "grpo_masked": _method("grpo_masked", "sequence", granularity="sequence"),
    "tpo_token": _method("tpo", "token"),
    "grpo_token": _method("grpo", "token", granularity="sequence"),
    "ppo": _method("ppo", "single"),
    "dg": _method("dg", "single", epochs=1),
    "reinforce": _method("reinforce", "single"),
}
"""For token sequences."""

BANDIT_METHODS = {
    "ce": _method("ce", "oracle", 1),
    "pg": _method("reinforce", "single", 1, advantage="given", baseline="expected"),
    "dg": _method("dg", "single", 1, advantage="given", baseline="expected"),
    "tpo": _method("tpo", "vector", 1, baseline="expected"),
    "grpo": _method("grpo_no_kl", "batch", 1),
    "group_pg": _method("reinforce", "signed", 1, advantage="reward", baseline="expected"),
    "pg_is": _method("pg_is", "single", 1, advantage="given", baseline="expected"),
    "ppo": _method("ppo", "single", 1, advantage="given", baseline="expected"),
}
"""For one action per context (MNIST, digits, sampled bandits), one step per batch."""


def method(name: str, length: int, group_size: int = 8, epochs: int | None = None) -> Method:
    """The method of that name for tasks of `length` actions."""
    methods = BANDIT_METHODS if length == 1 else SEQUENCE_METHODS
    if name not in methods:
        raise ValueError(f"method is {name!r}, expected one of {', '.join(methods)}")
    found = methods[name]
    return replace(
        found,
        rollout=replace(found.rollout, group_size=group_size),
        epochs=found.epochs if epochs is None else epochs,
    )

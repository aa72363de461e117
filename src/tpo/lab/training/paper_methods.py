"""The paper's methods by name, with its settings, and TPO of outcomes: what `tpo run --methods` accepts."""

from __future__ import annotations

from dataclasses import replace

from tpo.lab import names
from tpo.lab.rollouts import Rollout
from tpo.lab.training.cell import Method


def built(row: names.PaperMethod, group_size: int = 8) -> Method:
    """The method of a row, with groups of that size."""
    rollout = Rollout(row.kind, group_size, row.baseline)
    return Method(row.objective, tuple(sorted(row.options.items())), rollout, row.epochs)


SEQUENCE_METHODS = {name: built(row) for name, row in names.SEQUENCE_METHODS.items()}
"""For token sequences."""

BANDIT_METHODS = {name: built(row) for name, row in names.BANDIT_METHODS.items()}
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

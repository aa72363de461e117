"""Tasks in a user's own file, `FILE.py:CLASS[:option=value]`, checked before anything runs."""

from __future__ import annotations

import ast
from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, Any

from tpo import user_code

if TYPE_CHECKING:
    from tpo.lab.tasks import Task

EXPECTED = user_code.Expected(
    "a task",
    {
        "observes": 'what inputs are: ("tokens", H), ("features", n) or ("index", contexts)',
        "actions": "how many actions there are to choose from, V",
        "length": "how many actions make an episode, T",
        "dense": "True if no reward depends on later actions",
        "load(self)": "arrays it needs on the device, or ()",
        "contexts(self, data, key, batch)": "a batch of B Contexts(inputs, answer)",
        "rewards(self, answer, actions)": "rewards [B, S, T] of actions [B, S, T]",
        "held_out(self, data)": "contexts for evaluation, or None",
    },
    base="Task",
    see="examples/own_task.py and tpo.lab.tasks.Task",
)
"""What a class must define."""


def own_task_type(spec: str) -> Any:
    """The class of `FILE.py:CLASS`, a frozen dataclass with the parts of a task."""
    found = user_code.load(spec, EXPECTED)
    params = found.__dict__.get("__dataclass_params__")
    if params is None or not params.frozen:
        raise TypeError(
            f"class {found.__name__} in {spec.rpartition(':')[0]} is not a frozen dataclass: "
            "write @dataclass(frozen=True) above it, so that equal tasks are one"
        )
    return found


def own_task(text: str) -> Task:
    """The task of `FILE.py:CLASS:option=value`, checked by shapes, which takes JAX."""
    task = made_task(text)
    from tpo.lab.tasks.shapes import check_shapes

    check_shapes(task)
    return task


def made_task(text: str) -> Task:
    """The task of `FILE.py:CLASS:option=value`, if its file, its class and its options are right."""
    spec, *pairs = user_code.split_options(text)
    kind = own_task_type(spec)
    accepted = [f.name for f in fields(kind)]
    options = dict(_option(text, pair, accepted) for pair in pairs)
    try:
        task: Task = kind(**options)
    except TypeError as error:
        raise TypeError(f"--task {text}: {error}") from None
    return task


def _option(text: str, pair: str, accepted: list[str]) -> tuple[str, Any]:
    name, equals, value = pair.partition("=")
    if not equals or name not in accepted:
        raise ValueError(
            f"--task {text}: {pair!r} is not one of its options, "
            f"expected {'=..., '.join(accepted) + '=...' if accepted else 'none'}"
        )
    try:
        return name, ast.literal_eval(value)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return name, value


def described_own(value: Any) -> dict[str, Any] | None:
    """{"type": "FILE.py:CLASS", "source": fingerprint, option: value, ...}; None for a type of no file."""
    spec = user_code.spec_of(type(value))
    if spec is None or not is_dataclass(value):
        return None
    options = {f.name: getattr(value, f.name) for f in fields(value)}
    return {"type": spec, "source": user_code.fingerprint(spec), **options}

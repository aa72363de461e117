"""Names of task and policy types, so that a cell can be written to JSON and read back."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import Any

from tpo.lab.own_tasks import described_own, own_task_type
from tpo.lab.policies import MLP, CodePolicy, Policy, Table, Transformer
from tpo.lab.tasks import Bandit, Codes, Digits, Sequences, Task
from tpo.user_code import is_spec

_TYPES: dict[str, type] = {
    "bandit": Bandit,
    "codes": Codes,
    "digits": Digits,
    "sequences": Sequences,
    "code_policy": CodePolicy,
    "mlp": MLP,
    "table": Table,
    "transformer": Transformer,
}


def register(name: str, kind: type) -> None:
    """Let cells name your own task or policy type, a frozen dataclass, in their JSON."""
    if not is_dataclass(kind):
        raise TypeError(f"kind is {kind!r}, expected a frozen dataclass")
    if _TYPES.get(name, kind) is not kind:
        raise ValueError(f"the name {name!r} is taken by {_TYPES[name].__name__}: choose another")
    _TYPES[name] = kind


def described(value: Any) -> dict[str, Any]:
    """{"type": name, option: value, ...} of a registered dataclass, or of one of a file."""
    own = described_own(value)
    if own is not None:
        return own
    for name, kind in _TYPES.items():
        if type(value) is kind:
            options = {f.name: getattr(value, f.name) for f in fields(kind)}
            return {"type": name, **options}
    raise TypeError(
        f"{type(value).__name__} has no name: call "
        f"tpo.lab.training.register('a name', {type(value).__name__}) before running it"
    )


def rebuilt(description: dict[str, Any]) -> Any:
    """The value that `described` wrote down."""
    options = dict(description)
    name = options.pop("type")
    if is_spec(name):
        options.pop("source", None)
    elif name not in _TYPES:
        raise ValueError(
            f"type {name!r} is unknown, expected one of {', '.join(_TYPES)}; your own types are "
            "known after tpo.lab.training.register(name, type)"
        )
    kind = own_task_type(name) if is_spec(name) else _TYPES[name]
    return kind(**{k: tuple(v) if isinstance(v, list) else v for k, v in options.items()})


def policy_for(task: Task) -> Policy:
    """The paper's policy for what the task observes, sized to the task."""
    kind, size = task.observes
    if kind == "tokens":
        return Transformer(task.actions, size, task.length)
    if kind == "features":
        return MLP(size, task.actions)
    if kind == "index":
        return Table(size, task.actions)
    raise ValueError(
        f"observes says {kind!r}, expected 'tokens', 'features' or 'index'; "
        "for other inputs give the cell a policy"
    )

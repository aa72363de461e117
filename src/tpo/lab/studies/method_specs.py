"""Methods by name, as studies and `--methods` write them: NAME or NAME:option=value:option=value.

A name is one of the paper's (`tpo.lab.training.paper_methods`), or any objective of the library that fits the
task; NAME_token takes its group at every prefix. `epochs` is an option of every method, `optimiser` of those
for token sequences.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import tpo
from tpo.objectives import entry
from tpo.objectives.labels import label as objective_label

if TYPE_CHECKING:
    from tpo.lab.training import Method

LABELS = {"pg": "PG", "tpo_token": "TPO token", "grpo_token": "GRPO token"}
"""Methods of the paper that are no objectives by themselves."""


def parse(spec: str) -> tuple[str, dict[str, Any]]:
    """("tpo", {"epochs": 1}) of "tpo:epochs=1"."""
    name, *pairs = spec.split(":")
    options = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals:
            raise ValueError(f"method {spec!r}: {pair!r} is no option, expected option=value")
        options[key] = _literal(value)
    return name, options


def _literal(text: str) -> Any:
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text


def optimiser(spec: str) -> str:
    """The optimiser "adam" of "tpo:optimiser=adam"; Muon where nothing is said."""
    return str(parse(spec)[1].get("optimiser", "muon"))


def label(spec: str, labels: Mapping[str, str] | None = None) -> str:
    """How tables and figures call a method."""
    name, options = parse(spec)
    words = {**LABELS, **(labels or {})}.get(name) or objective_label(name)
    return ", ".join([words, *(f"{key} {value}" for key, value in options.items())])


def sequence_method(spec: str, group_size: int, epochs: int | None = None, **more: Any) -> Method:
    """The method for token sequences; `more` are options of its objective."""
    from tpo.lab.training import SEQUENCE_METHODS

    name, options = parse(spec)
    options.pop("optimiser", None)  # not the method's own: see `optimiser`
    base = SEQUENCE_METHODS.get(name) or _from_objective(name)
    rollout = replace(base.rollout, group_size=group_size)
    return _with(replace(base, rollout=rollout), {"epochs": epochs, **options}, more)


def bandit_method(spec: str, baseline: float | None = None) -> Method:
    """The method for one action per context; a baseline other than Σ pi² where given."""
    from tpo.lab.training import BANDIT_METHODS

    name, options = parse(spec)
    base = BANDIT_METHODS.get(name) or _bandit_objective(name, list(BANDIT_METHODS))
    if baseline is not None and base.rollout.baseline is not None:
        base = replace(base, rollout=replace(base.rollout, baseline=baseline))
    return _with(base, options, {})


def _with(base: Method, options: Mapping[str, Any], more: Mapping[str, Any]) -> Method:
    given = {**more, **options}
    epochs = given.pop("epochs", None)
    merged = tuple(sorted({**dict(base.options), **given}.items()))
    return replace(base, options=merged, epochs=epochs or base.epochs)


ASIDE = {
    "ce": "it is told the answer",
    "population": "it is an exact update of bandits with a known answer",
    "gdpo": "it weighs several rewards, and there is one",
    "mt_grpo": "it weighs several tasks, and there is one",
}
"""Objectives that need what a task with one reward and no teacher does not give."""

MISSING = {"baseline": "it needs the score of a greedy decode", "values": "it needs a critic"}


def aside() -> dict[str, str]:
    """The objectives that do not fit these tasks, each with the reason."""
    reasons = dict(ASIDE)
    for name in tpo.list_objectives():
        for need in entry(name).make.needs:
            reasons.setdefault(name, MISSING.get(need, f"it needs {need}"))
    return {name: reasons[name] for name in tpo.list_objectives() if name in reasons}


def fitting() -> list[str]:
    """The objectives that learn from scored rollouts alone."""
    reasons = aside()
    return [name for name in tpo.list_objectives() if name not in reasons]


def _unknown(name: str) -> str:
    from tpo.lab.training import SEQUENCE_METHODS

    if name in aside():
        return f"method {name!r} does not fit this study: {aside()[name]}"
    valid = dict.fromkeys([*SEQUENCE_METHODS, *fitting()])
    return f"method is {name!r}, expected one of {', '.join(valid)}, or one of them with _token"


def _epochs(name: str) -> int:
    return 4 if entry(name).make.traits.epochs else 1


def _from_objective(name: str) -> Method:
    from tpo.lab.rollouts import Rollout
    from tpo.lab.training import Method

    names = fitting()
    token = name.removesuffix("_token") if name.endswith("_token") else ""
    if name not in names and token in names:
        return Method(token, (), Rollout("token"), _epochs(token))
    if name not in names:
        raise ValueError(_unknown(name))
    kind = "sequence" if entry(name).make.traits.group else "single"
    return Method(name, (), Rollout(kind), _epochs(name))


def _bandit_objective(name: str, known: list[str]) -> Method:
    """A target is built over all actions; a single-sample objective takes the given baseline."""
    from tpo.lab.rollouts import Rollout
    from tpo.lab.training import Method

    found = entry(name).make if name in fitting() else None
    if found and found.traits.family == "target":
        return Method(name, (), Rollout("vector", baseline="expected"), 1)
    if found and not found.traits.group and "advantage" in found.__dataclass_fields__:
        return Method(name, (("advantage", "given"),), Rollout("single", baseline="expected"), 1)
    raise ValueError(
        f"method {name!r} does not fit a task of one action, expected one of {', '.join(known)}, "
        "an objective of the target family, or one with a given baseline"
    )

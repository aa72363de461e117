"""Methods of the lab: what a name with its options (`tpo.objectives.method_syntax`) means for a task.

A name is one of the paper's (`tpo.lab.training.paper_methods`), any objective of the library that fits the
task, or an objective in a file of your own, FILE.py:CLASS. NAME_token takes its group at every prefix. `epochs`
is an option of every method, `optimiser` of those for token sequences. A method with a critic also has those
of `tpo.lab.critics.Critic` as `critic_OPTION`, such as `a2c:critic_learning_rate=3e-3`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import tpo
from tpo.checks import close_match
from tpo.lab.critics import Critic, critic_for
from tpo.lab.names import BANDIT_METHODS, OPTIMISERS, SEQUENCE_METHODS, PaperMethod
from tpo.objectives import entry
from tpo.objectives.method_syntax import parse
from tpo.options import COUNT, kinds, one_of, optional
from tpo.user_code import is_spec

if TYPE_CHECKING:
    from tpo.lab.training import Method


def optimiser_name(spec: str) -> str:
    """The optimiser "adam" of "tpo:optimiser=adam"; Muon by default."""
    return str(parse(spec)[1].get("optimiser", "muon"))


def sequence_method(spec: str, group_size: int, epochs: int | None = None, **more: Any) -> Method:
    """The method for token sequences; `more` are options of its objective."""
    from tpo.lab.training.paper_methods import built

    return built(sequence_row(spec, epochs, **more), group_size)


def bandit_method(spec: str, baseline: float | None = None) -> Method:
    """The method for one action per context; `baseline` replaces Σ pi²."""
    from tpo.lab.training.paper_methods import built

    row = bandit_row(spec)
    given = baseline is not None and row.baseline is not None
    return built(row._replace(baseline=baseline) if given else row)


def sequence_row(spec: str, epochs: int | None = None, **more: Any) -> PaperMethod:
    """The method for token sequences as data; a wrong name or option is an error before JAX is imported."""
    name, options = parse(spec)
    if "optimiser" in options:  # not an option of the objective: see `optimiser_name`
        OPTIMISER.check(f"method {spec!r}: optimiser", options.pop("optimiser"))
    row = SEQUENCE_METHODS.get(name) or _sequence_objective(name)
    return _with_options(spec, row, {"epochs": epochs, **options}, more)


def bandit_row(spec: str) -> PaperMethod:
    """The method for one action per context as data, checked as `sequence_row` does."""
    name, options = parse(spec)
    row = BANDIT_METHODS.get(name) or _bandit_objective(name, list(BANDIT_METHODS))
    return _with_options(spec, row, options, {})


def uses_critic(row: PaperMethod) -> bool:
    """Whether a critic is trained beside the policy."""
    return tpo.objective(row.objective, **row.options).uses_values


OPTIMISER = one_of(*OPTIMISERS)


def _with_options(
    spec: str, base: PaperMethod, options: Mapping[str, Any], more: Mapping[str, Any]
) -> PaperMethod:
    given = {**more, **options}
    epochs = given.pop("epochs", None)
    optional(COUNT).check(f"method {spec!r}: epochs", epochs)
    of_critic = {key: given.pop(key) for key in list(given) if key.startswith(CRITIC)}
    merged = {**base.options, **given}
    made = tpo.objective(base.objective, **merged)
    if made.uses_values and base.kind == "token":
        raise ValueError(
            f"method {spec!r} needs a critic, which values the states of whole episodes: leave _token out"
        )
    critic = _critic(spec, made, of_critic) if of_critic else None
    return base._replace(options=merged, epochs=epochs or base.epochs, critic=critic)


CRITIC = "critic_"
"""How options of the critic begin."""


def _critic(spec: str, made: tpo.Objective, options: Mapping[str, Any]) -> Critic:
    """The critic of the objective with the options of "a2c:critic_epochs=8"."""
    accepted = {f"{CRITIC}{name}": kind for name, kind in kinds(Critic).items()}
    for option, value in options.items():
        if option not in accepted:
            listing = "; ".join(f"{name}: {kind.accepts}" for name, kind in accepted.items())
            hint = close_match(option, accepted)
            raise TypeError(
                f"method {spec!r} has no option {option!r}.{hint} Of a critic: {listing}"
            )
        accepted[option].check(f"method {spec!r}: {option}", value)
    found = critic_for(made, **{key.removeprefix(CRITIC): v for key, v in options.items()})
    if found is None:
        raise ValueError(
            f"method {spec!r}: {next(iter(options))} is of a critic, and it needs none"
        )
    return found


NOT_FITTING = {
    "ce": "it is told the answer",
    "population": "it is an exact update of bandits with a known answer",
    "gdpo": "it weights several rewards, and there is one",
    "mt_grpo": "it weights several tasks, and there is one",
}
"""Objectives that need an answer or more rewards, which scored rollouts of one task do not have."""

MET_NEEDS = ("baseline", "values")
"""Needs that the lab meets: rollouts give the score of a greedy decode, and it trains a critic."""


def _unmet(name: str) -> list[str]:
    return [need for need in entry(name).make.needs if need not in MET_NEEDS]


def _greedy(name: str) -> str | None:
    """The baseline of the rollouts: a greedy decode where the objective needs one."""
    return "greedy" if "baseline" in entry(name).make.needs else None


def unfitting_reasons() -> dict[str, str]:
    """The objectives that do not fit the lab's tasks, each with the reason."""
    reasons = dict(NOT_FITTING)
    for name in tpo.list_objectives():
        for need in _unmet(name):
            reasons.setdefault(name, f"it needs {need}")
    return {name: reasons[name] for name in tpo.list_objectives() if name in reasons}


def fitting_objectives() -> list[str]:
    """The objectives that learn from scored rollouts, with or without a critic."""
    reasons = unfitting_reasons()
    return [name for name in tpo.list_objectives() if name not in reasons]


def _unknown_message(name: str) -> str:
    if name in unfitting_reasons():
        return f"method {name!r} does not fit this study: {unfitting_reasons()[name]}"
    valid = dict.fromkeys([*SEQUENCE_METHODS, *fitting_objectives()])
    hint = close_match(name, valid)
    return (
        f"method is {name!r}.{hint} Expected one of {', '.join(valid)}, or one of them with _token"
    )


def _default_epochs(name: str) -> int:
    return 4 if entry(name).make.traits.epochs else 1


def _own(name: str) -> list[str]:
    """The objective of a user's file, as a list of one, if that is what the name means."""
    if not is_spec(name):
        return []
    for need in _unmet(name):
        raise ValueError(f"method {name!r} does not fit: it needs {need}")
    return [name]


def _sequence_objective(name: str) -> PaperMethod:
    names = [*fitting_objectives(), *_own(name)]
    token = name.removesuffix("_token") if name.endswith("_token") else ""
    if name not in names and token in names and not _greedy(token):
        return PaperMethod(token, "token", _default_epochs(token))
    if name not in names:
        raise ValueError(_unknown_message(name))
    kind = "sequence" if entry(name).make.traits.group else "single"
    return PaperMethod(name, kind, _default_epochs(name), baseline=_greedy(name))


def _bandit_objective(name: str, known: list[str]) -> PaperMethod:
    """A target objective uses all actions; one of single samples a given baseline, a greedy one or a critic."""
    found = entry(name).make if name in [*fitting_objectives(), *_own(name)] else None
    if found and found.traits.family == "target":
        return PaperMethod(name, "vector", 1, baseline="expected")
    if found and found.traits.critic:
        return PaperMethod(name, "single", _default_epochs(name))
    if found and not found.traits.group and "advantage" in found.__dataclass_fields__:
        return PaperMethod(name, "single", 1, {"advantage": "given"}, "expected")
    if found and not found.traits.group and _greedy(name):
        return PaperMethod(name, "single", 1, baseline="greedy")
    raise ValueError(
        f"method {name!r} does not fit a task of one action, expected one of {', '.join(known)}, "
        f"an objective of the target family, or one with a given baseline.{close_match(name, known)}"
    )

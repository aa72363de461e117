"""Which objective a trainer of language models fits: from options to a frozen value, with defaults for text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

import tpo
from tpo.objectives import Objective, entry
from tpo.objectives.base import WRAPPERS, check_group_size

DEFAULT_SCORE = "ratio"
"""The sequence score for language models where an objective's own default is the paper's sum."""


def accepted_options(name: str) -> dict[str, Any]:
    """The options of an objective with their defaults; an unknown name lists the valid ones."""
    own = {f.name: f.default for f in fields(entry(name).make)}
    return own | dict.fromkeys(WRAPPERS)


def build_objective(
    name: str,
    options: Mapping[str, Any],
    beta: float,
    beta_is: str,
    greedy: bool = True,
    critic: bool = False,
) -> Objective:
    """The objective of that name with these options; a `score` or `eta` of None means the default.

    The KL to the reference is the trainer's: `beta` is its strength, and `beta_is` tells users where it is set.
    greedy: whether the trainer samples a greedy completion of each prompt, whose score is a baseline.
    critic: whether the trainer has a critic.
    """
    given_fields = (*(("baseline",) if greedy else ()), *(("values",) if critic else ()))
    _check_trainable(name, given_fields)
    accepted = accepted_options(name)
    given = {k: tuple(v) if isinstance(v, list) else v for k, v in options.items()}
    for option in ("score", "eta"):
        value = given.get(option)
        if value is None:
            given.pop(option, None)
        elif option not in accepted:
            raise ValueError(
                f"{option} is {value!r}, and objective {name!r} has no {option}: leave {option} out"
            )
    own_kl = entry(name).make.traits.kl
    if "beta" in given and (own_kl or "beta" not in accepted):
        raise ValueError(
            f"objective_options holds beta, which is an option of the config: {beta_is}"
        )
    if accepted.get("score") == "sum":
        given.setdefault("score", DEFAULT_SCORE)
    if own_kl:
        given["beta"] = beta
    made = tpo.objective(name, **given)
    if made.uses_values and not critic:
        raise ValueError(NO_CRITIC.format(f"{name!r} with these options"))
    return made


NO_CRITIC = (
    "objective {} needs a critic, which this trainer does not have: "
    "choose one without, such as 'tpo', 'grpo' or 'rloo'"
)


def check_sampler(built: Objective, vllm: bool, option: str) -> None:
    """Raise if the engine that samples does not give what the objective needs; `option` chooses vLLM."""
    if vllm and "baseline" in built.needs:
        raise ValueError(
            f"{option} is True, and {type(built).__name__} takes a greedy completion of each prompt, which "
            f"vLLM does not sample here: leave {option} out, or choose 'rloo', whose baseline is other samples"
        )


def check_rollout_log_probs(built: Objective, known: bool, advice: str) -> None:
    """Raise if `correct` is set and the engine that samples does not report log-probs."""
    if "log_probs_rollout" in built.needs and not known:
        raise ValueError(
            "objective_options holds correct, which compares the trainer's log-probs with those of the engine "
            f"that sampled, and there are none: {advice}"
        )


def check_engine(built: Objective, vllm: bool) -> None:
    """Raise if `tpo train` cannot give the objective what it needs, with vLLM or with the own sampler."""
    check_sampler(built, vllm, "vllm")
    check_rollout_log_probs(built, vllm, "set vllm, or leave correct out")


def check_group(objective: str, option: str, size: int) -> None:
    """Raise for a group of one: a group objective has nothing to compare, and TRL needs two for any other."""
    check_group_size(objective, option, size)
    if size < 2:
        raise ValueError(
            f"{option} is {size}, and TRL's trainer needs at least 2 for any objective: set {option} to 2"
        )


def _check_trainable(name: str, given: tuple[str, ...]) -> None:
    make = entry(name).make
    if make.traits.critic and "values" not in given:
        raise ValueError(NO_CRITIC.format(repr(name)))
    for need in make.needs:
        if need in given:
            continue
        raise ValueError(
            f"objective {name!r} needs {need} with every prompt, which this "
            "trainer does not sample: choose 'rloo', whose baseline is the rest of the group"
        )

"""Which objective a trainer of language models fits: from options to a frozen value, with defaults for text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

import tpo
from tpo.objectives import Objective, entry
from tpo.objectives.base import check_group_size

DEFAULT_SCORE = "ratio"
"""The sequence score for language models where an objective's own default is the paper's sum."""


def accepted_options(name: str) -> dict[str, Any]:
    """The options of an objective with their defaults; an unknown name lists the valid ones."""
    return {f.name: f.default for f in fields(entry(name).make)}


def build_objective(name: str, options: Mapping[str, Any], beta: float, beta_is: str) -> Objective:
    """The objective of that name with these options; a `score` or `eta` of None means the default.

    The KL to the reference is the trainer's: `beta` is its strength, and `beta_is` tells users where it is set.
    """
    _check_trainable(name)
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
    if "beta" in given:
        raise ValueError(
            f"objective_options holds beta, which is an option of the config: {beta_is}"
        )
    if accepted.get("score") == "sum":
        given.setdefault("score", DEFAULT_SCORE)
    if "beta" in accepted:
        given["beta"] = beta
    made = tpo.objective(name, **given)
    if made.uses_values:
        raise ValueError(NO_CRITIC.format(f"{name!r} with these options"))
    return made


NO_CRITIC = (
    "objective {} needs a critic, which this trainer does not have: "
    "choose one without, such as 'tpo', 'grpo' or 'rloo'"
)


def check_group(objective: str, option: str, size: int) -> None:
    """Raise for a group of one: a group objective has nothing to compare, and TRL needs two for any other."""
    check_group_size(objective, option, size)
    if size < 2:
        raise ValueError(
            f"{option} is {size}, and TRL's trainer needs at least 2 for any objective: set {option} to 2"
        )


def _check_trainable(name: str) -> None:
    make = entry(name).make
    if make.traits.critic:
        raise ValueError(NO_CRITIC.format(repr(name)))
    if make.needs:
        raise ValueError(
            f"objective {name!r} needs {make.needs[0]} with every prompt, which this "
            "trainer does not sample: choose 'rloo', whose baseline is the rest of the group"
        )

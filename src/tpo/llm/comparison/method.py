"""Methods of a comparison: an objective with options of its own, such as `tpo:eta=0.5:score=mean`."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from tpo.checks import close_match
from tpo.llm.objective_options import accepted
from tpo.llm.runs.recipe import Recipe, typed
from tpo.objectives.labels import label
from tpo.storage.former_names import FORMER_OPTIONS, FORMER_VALUES, current_options

OF_THE_RECIPE = (
    "score",
    "eta",
    "learning_rate",
    "epochs",
    "beta",
    "max_grad_norm",
    "skip_zero_gradient",
)
"""Options of a recipe that belong to a method; all others are the same for every method of a comparison."""


@dataclass(frozen=True)
class Method:
    """An objective and the options that are not the comparison's, sorted by name."""

    objective: str
    options: tuple[tuple[str, Any], ...] = ()

    @property
    def name(self) -> str:
        """As it is written on the command line, the same however its options were ordered or spelled."""
        return ":".join([self.objective, *(f"{k}={word(v)}" for k, v in self.options)])

    @property
    def folder(self) -> str:
        """The name in letters, digits, dots, dashes and underscores."""
        return re.sub(r"[^A-Za-z0-9._]", "-", self.name)

    @property
    def former_folder(self) -> str:
        """The folder that an earlier version gave to this method, with the former names of its options."""
        names = {current: former for former, current in FORMER_OPTIONS.items()}
        values = {(k, current): former for (k, former), current in FORMER_VALUES.items()}
        options = [(names.get(k, k), values.get((k, v), v)) for k, v in self.options]
        return Method(self.objective, tuple(sorted(options))).folder

    @property
    def label(self) -> str:
        """For readers."""
        return " ".join([label(self.objective), *(f"{k}={word(v)}" for k, v in self.options)])

    def with_option(self, name: str, value: Any) -> Method:
        """The same with one option more."""
        return _method(self.objective, {**dict(self.options), name: value})

    def applied(self, base: Recipe) -> Recipe:
        """The recipe of a comparison as this method trains it."""
        given = dict(self.options)
        own = {name: given.pop(name) for name in OF_THE_RECIPE if name in given}
        plain = replace(base, score=None, eta=None, objective_options={})
        return replace(plain, objective=self.objective, objective_options=given, **own)


def method(text: str) -> Method:
    """`OBJECTIVE` or `OBJECTIVE:OPTION=VALUE:...`; a wrong name lists the valid ones."""
    objective, *parts = text.strip().split(":")
    given: dict[str, Any] = {}
    for part in parts:
        option, sign, value = part.partition("=")
        if not sign or not value:
            raise ValueError(f"method {text!r} holds {part!r}, expected OPTION=VALUE")
        if option in given:
            raise ValueError(f"method {text!r} holds {option} twice")
        given[option] = value_of(value)
    return _method(objective, current_options(given))


def methods(given: str | Sequence[str], least: int = 2) -> tuple[Method, ...]:
    """Methods, as a list or as text with commas between them; none of them twice."""
    texts = given.split(",") if isinstance(given, str) else given
    found = tuple(method(str(text)) for text in texts if text)
    if len(found) < least:
        names = ", ".join(one.name for one in found)
        raise ValueError(
            f"compare holds {names or 'nothing'}: give two or more, such as tpo,grpo, "
            "or --tune one, or give it several --seeds"
        )
    for what in ("name", "folder"):
        name, times = Counter(getattr(one, what) for one in found).most_common(1)[0]
        if times > 1:
            raise ValueError(f"compare holds {name} {times} times: give each method once")
    return found


def _method(objective: str, given: dict[str, Any]) -> Method:
    own = [name for name in accepted(objective) if name not in OF_THE_RECIPE]
    missing = {"score", "eta"} - {*accepted(objective)}
    shared = [name for name in OF_THE_RECIPE if name not in missing]
    for name in given:
        if name not in own + shared:
            hint = close_match(name, own + shared)
            raise ValueError(
                f"objective {objective!r} has no option {name!r}.{hint} "
                f"Options: {', '.join([*shared, *own])}"
            )
    values = {k: typed(k, v) if k in OF_THE_RECIPE else v for k, v in given.items()}
    return Method(objective, tuple(sorted(values.items())))


def value_of(text: str) -> Any:
    """A number, true or false, or text."""
    for read in (json.loads, float):
        try:
            return read(text)
        except ValueError:
            continue
    return text


def word(value: Any) -> str:
    """What `value_of` reads as this value."""
    return value if isinstance(value, str) else json.dumps(value)

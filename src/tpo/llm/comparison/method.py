"""Methods of a comparison: an objective with options of its own, such as `tpo:eta=0.5:score=mean`."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from tpo.checks import close_match
from tpo.llm.objective_options import accepted_options, build_objective
from tpo.llm.runs.recipe import PER_METHOD, Recipe, typed_option
from tpo.objectives.base import label
from tpo.objectives.method_syntax import parse, written, written_value
from tpo.storage.former_names import FORMER_OPTIONS, FORMER_VALUES, current_options


@dataclass(frozen=True)
class MethodSpec:
    """An objective and the options in which it differs from the comparison's recipe, sorted by name."""

    objective: str
    options: tuple[tuple[str, Any], ...] = ()

    @property
    def name(self) -> str:
        """As written on the command line; the same name in whatever order and spelling its options came."""
        return written(self.objective, dict(self.options))

    @property
    def folder(self) -> str:
        """The name as a folder name: in letters, digits, dots, dashes and underscores."""
        return re.sub(r"[^A-Za-z0-9._]", "-", self.name)

    @property
    def former_folder(self) -> str:
        """The folder that an earlier version gave to this method, with the former names of its options."""
        names = {current: former for former, current in FORMER_OPTIONS.items()}
        values = {(k, current): former for (k, former), current in FORMER_VALUES.items()}
        options = [(names.get(k, k), values.get((k, v), v)) for k, v in self.options]
        return MethodSpec(self.objective, tuple(sorted(options))).folder

    @property
    def label(self) -> str:
        """The name in reports."""
        return " ".join(
            [label(self.objective), *(f"{k}={written_value(v)}" for k, v in self.options)]
        )

    def with_option(self, name: str, value: Any) -> MethodSpec:
        """This method with one more option."""
        return _checked_method(self.objective, {**dict(self.options), name: value})

    def apply_to(self, shared: Recipe) -> Recipe:
        """The comparison's shared recipe as this method trains it."""
        objective_options = dict(self.options)
        recipe_options = {
            name: objective_options.pop(name) for name in PER_METHOD if name in objective_options
        }
        return replace(
            shared,
            objective=self.objective,
            objective_options=objective_options,
            **{"score": None, "eta": None, **recipe_options},
        )


def method(text: str) -> MethodSpec:
    """`OBJECTIVE` or `OBJECTIVE:OPTION=VALUE:...`; a wrong name lists the valid ones."""
    objective, options = parse(text)
    return _checked_method(objective, current_options(options))


def methods(listed: str | Sequence[str], least: int = 2) -> tuple[MethodSpec, ...]:
    """Methods, from a list or from text with commas between them; none of them twice."""
    texts = listed.split(",") if isinstance(listed, str) else listed
    found = tuple(method(str(text)) for text in texts if text)
    if len(found) < least:
        names = ", ".join(one.name for one in found)
        raise ValueError(
            f"compare holds {names or 'nothing'}: give two or more, such as tpo,grpo, "
            "or --tune one, or give it several --seeds"
        )
    for attribute in ("name", "folder"):
        name, times = Counter(getattr(one, attribute) for one in found).most_common(1)[0]
        if times > 1:
            raise ValueError(f"compare holds {name} {times} times: give each method once")
    return found


def _checked_method(objective: str, options: dict[str, Any]) -> MethodSpec:
    """A method whose options exist, in the type that they have in a recipe."""
    accepted = accepted_options(objective)
    of_objective = [name for name in accepted if name not in PER_METHOD]
    missing = {"score", "eta"} - {*accepted}
    of_recipe = [name for name in PER_METHOD if name not in missing]
    for name in options:
        if name not in of_objective + of_recipe:
            hint = close_match(name, of_objective + of_recipe)
            raise ValueError(
                f"objective {objective!r} has no option {name!r}.{hint} "
                f"Options: {', '.join([*of_recipe, *of_objective])}"
            )
    values = {k: typed_option(k, v) if k in PER_METHOD else v for k, v in options.items()}
    own = {k: v for k, v in values.items() if k in ("score", "eta") or k not in PER_METHOD}
    build_objective(objective, own, 0.0, "write it as an option of the method")
    return MethodSpec(objective, tuple(sorted(values.items())))

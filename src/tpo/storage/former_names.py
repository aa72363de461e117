"""Names in older runs and evidence, and the names that replaced them. Both are read, new ones are written."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

FORMER_OPTIONS = {
    "iterations": "epochs",
    "skip_silent": "skip_zero_gradient",
    "spread_weights": "weight_dithering",
}
"""Options of a recipe or a method."""

FORMER_VALUES = {("ties", "free"): "pooled", ("ties", "held"): "anchored"}
"""Values of an option."""

_VALUE = r"[\w.+-]+"
_OPTIONS = re.compile(rf"\b\w+={_VALUE}(?:[: ]\w+={_VALUE})*")
_FLAG = re.compile(r"(--(?:no-)?)([a-z][a-z-]*)")


def current_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Options and their values under the current names, in the given order.

    An option given under both its names is an error.
    """
    found: dict[str, Any] = {}
    for former, value in options.items():
        name = FORMER_OPTIONS.get(former, former)
        if name in found:
            former = next(one for one in options if FORMER_OPTIONS.get(one) == name)
            raise ValueError(
                f"options hold {former!r} and {name!r}, two names of one option: drop {former!r}"
            )
        found[name] = FORMER_VALUES.get((name, value), value) if isinstance(value, str) else value
    return found


def current_method(text: str) -> str:
    """`tpo:eta=0.5:iterations=4` is `tpo:epochs=4:eta=0.5`: current names, sorted where one has changed.

    Reads a label (`TPO iterations=4`), and methods or labels within a longer text, too.
    """
    return _OPTIONS.sub(_renamed, text)


def current_command(text: str) -> str:
    """A command with the current names of its flags and of the options of its methods."""

    def flag(found: re.Match[str]) -> str:
        name = found[2].replace("-", "_")
        return found[1] + FORMER_OPTIONS.get(name, name).replace("_", "-")

    return current_method(_FLAG.sub(flag, text))


def _renamed(found: re.Match[str]) -> str:
    given = found[0]
    mark = ":" if ":" in given else " "
    options = dict(one.split("=", 1) for one in given.split(mark))
    current = current_options(options)
    return (
        given if current == options else mark.join(f"{k}={v}" for k, v in sorted(current.items()))
    )

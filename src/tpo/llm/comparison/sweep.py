"""Sweeps: every method of a comparison with each value of an option, all of them reported."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tpo.llm.comparison.method import MethodSpec
from tpo.objectives.method_syntax import parse_value
from tpo.storage.former_names import FORMER_OPTIONS


def swept(methods: Sequence[MethodSpec], given: Any) -> tuple[MethodSpec, ...]:
    """Each method with each value; a method that sets the option itself is refused."""
    option, values = option_and_values("sweep", given)
    for one in methods:
        if option in dict(one.options):
            raise ValueError(
                f"method {one.name!r} sets {option}, which is swept: leave it out of the method"
            )
    for value in values:
        if values.count(value) > 1:
            raise ValueError(
                f"sweep holds {option}={value} {values.count(value)} times: give each value once"
            )
    return tuple(one.with_option(option, value) for one in methods for value in values)


def option_and_values(flag: str, given: Any) -> tuple[str, list[Any]]:
    """From OPTION=VALUE,VALUE as text, or {OPTION: [VALUE, ...]}; `flag` is the name that errors use."""
    found = _parts(given)
    if found is None or not found[1]:
        raise ValueError(
            f"{flag} is {given!r}, expected one option and its values: learning_rate=3e-6,1e-5"
        )
    option, values = found
    return FORMER_OPTIONS.get(option, option), [parse_value(str(value)) for value in values]


def _parts(given: Any) -> tuple[str, Sequence[Any]] | None:
    if isinstance(given, Mapping) and len(given) == 1:
        option, values = next(iter(given.items()))
        if isinstance(values, Sequence) and not isinstance(values, str):
            return option, values
    elif isinstance(given, str) and "=" in given:
        option, _, text = given.partition("=")
        return option.strip(), [value for value in text.split(",") if value]
    return None

"""Options: what each accepts is declared once, and holds for Python, for files and for the command line."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import MISSING, Field, dataclass, field, fields, is_dataclass, replace
from typing import Any

from tpo.checks import close_match

MOST = 2**31 - 1
"""The largest whole number of any option: what JAX counts with."""


def _same(value: Any) -> Any:
    return value


@dataclass(frozen=True)
class Kind:
    """The values that an option accepts, in words and as a test, and how a file or a flag spells them."""

    accepts: str
    """completes the sentence "expected ..." """
    allowed: Callable[[Any], bool]
    read: Callable[[Any], Any] = _same
    """a text, or a number of a file, as a value; ValueError or TypeError if it cannot be read"""
    names: Callable[[], Iterable[str]] = tuple
    """valid names, of which the nearest is suggested"""
    symbol: str = "TEXT"
    """as usage lines show the value"""

    def check(self, name: str, value: Any) -> None:
        """Raise unless the value is allowed as it is."""
        if not self.allowed(value):
            raise ValueError(
                f"{name} is {shown(value)}, expected {self.accepts}{self._hint(value)}"
            )

    def value(self, name: str, given: Any) -> Any:
        """The value in the option's type; YAML reads 1e-5, which has no point, as text."""
        try:
            found = self.read(given)
        except (ValueError, TypeError, OverflowError):
            found = MISSING
        if found is MISSING or not self.allowed(found):
            raise ValueError(
                f"{name} is {shown(given)}, expected {self.accepts}{self._hint(given)}"
            )
        return found

    def _hint(self, value: object) -> str:
        close = close_match(value, self.names())
        return f".{close}" if close else ""


def shown(value: object) -> str:
    """The value as Python writes it, in one line of at most LONGEST characters."""
    try:
        text = " ".join(repr(value).split())
    except ValueError:  # a whole number of more than 4300 digits
        text = f"a {type(value).__name__} too long to print"
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}..."


LONGEST = 120


def _number(value: Any) -> float:
    if isinstance(value, bool):
        raise TypeError
    return float(value)


def _whole(value: Any) -> int:
    """3 of "3", of 3.0 and of "3e0"; not of 2.5."""
    if isinstance(value, (int, str)) and not isinstance(value, bool):
        try:
            return int(value)
        except ValueError:
            pass
    number = _number(value)
    if not number.is_integer():
        raise ValueError
    return int(number)


def _bool(value: Any) -> Any:
    return (
        {"true": True, "false": False}.get(value.lower(), value)
        if isinstance(value, str)
        else value
    )


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def is_number(value: object) -> bool:
    """An int or a float that is finite."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:  # an int beyond every float
        return False


def one_of(*names: str) -> Kind:
    """One of a few names."""
    return Kind(
        "one of " + ", ".join(map(repr, names)),
        lambda v: isinstance(v, str) and v in names,
        names=lambda: names,
        symbol="NAME",
    )


def whole(least: int, most: int = MOST) -> Kind:
    """A whole number in a range."""
    return Kind(
        f"a whole number from {least} to {most}",
        lambda v: _is_whole(v) and least <= v <= most,
        _whole,
        symbol="INT",
    )


def number(accepts: str, allowed: Callable[[float], bool]) -> Kind:
    """A finite number with a property."""
    return Kind(accepts, lambda v: is_number(v) and allowed(v), _number, symbol="FLOAT")


def optional(kind: Kind) -> Kind:
    """That kind, or None for the default of what takes it."""
    return replace(
        kind,
        allowed=lambda v: v is None or kind.allowed(v),
        read=lambda v: None if v is None else kind.read(v),
    )


TEXT = Kind("text", lambda v: isinstance(v, str))
NAME = Kind("text that is not empty", lambda v: isinstance(v, str) and bool(v.strip()))
BOOL = Kind("True or False", lambda v: isinstance(v, bool), _bool)
COUNT = whole(1)
WHOLE = whole(0)
FINITE = number("a finite number", lambda v: True)
POSITIVE = number("a finite number above 0", lambda v: v > 0)
NONNEGATIVE = number("a finite number, 0 or above", lambda v: v >= 0)
FRACTION = number("a number from 0 to 1", lambda v: 0 <= v <= 1)
ABOVE_ONE = number("0 or a number above 1", lambda v: v == 0 or v > 1)
INSIDE_UNIT = number("a number above 0 and below 1", lambda v: 0 < v < 1)
NUMBERS = Kind("a tuple of numbers", lambda v: isinstance(v, tuple) and all(map(is_number, v)))
TABLE = Kind(
    """name: value pairs, as JSON such as '{"name": 1}'""",
    lambda v: isinstance(v, dict) and all(isinstance(name, str) for name in v),
    lambda v: json.loads(v) if isinstance(v, str) else v,
    symbol="JSON",
)


def option(default: Any, kind: Kind, about: str = "", **more: Any) -> Any:
    """A dataclass field of that kind; MISSING for a field without a default, `dict` for an empty table.

    `more` is what else holds for it. `unset` says what the default does, where its value does not.
    """
    metadata = {"kind": kind, "help": about, **more}
    if callable(default):
        return field(default_factory=default, metadata=metadata)
    return field(default=default, metadata=metadata)


def check(made: Any, prefix: str = "") -> None:
    """Raise unless every option of a dataclass accepts its value; `prefix` begins the message."""
    for name, kind in kinds(made).items():
        kind.check(prefix + name, getattr(made, name))


def declared(made: Any) -> dict[str, Field[Any]]:
    """The options of a dataclass, or of an instance, by name: fields with a kind, a help text and a default."""
    return {f.name: f for f in fields(made) if "kind" in f.metadata}


def sections(made: type) -> Iterator[tuple[str, list[Field[Any]]]]:
    """The options of a dataclass by the class that declares them, whose docstring begins with a title."""
    seen: set[str] = set()
    for one in reversed(made.__mro__):
        own = [f for k, f in declared(one).items() if k not in seen] if is_dataclass(one) else []
        if own:
            yield re.split(r"[;.]", one.__doc__ or "")[0], own
        seen.update(f.name for f in own)


def with_mark(made: Any, mark: str) -> tuple[str, ...]:
    """The options that were declared with a mark, such as `per_method=True`."""
    return tuple(name for name, f in declared(made).items() if f.metadata.get(mark))


def values_of(made: Any, options: type) -> dict[str, Any]:
    """The values that `made` has for the options of another class."""
    return {name: getattr(made, name) for name in declared(options)}


def default_text(f: Field[Any]) -> str:
    """The default of an option as help texts and tables write it; "" if there is none."""
    if "unset" in f.metadata:
        return str(f.metadata["unset"])
    if f.default is MISSING or f.default is None:
        return ""
    text = f"{f.default:g}" if isinstance(f.default, float) else str(f.default)
    return text.replace("e-0", "e-")


def help_text(f: Field[Any]) -> str:
    """What an option means, and its default."""
    default = "" if f.default is False else default_text(f)
    return f"{f.metadata['help']} ({default})" if default else str(f.metadata["help"])


def kinds(made: Any) -> dict[str, Kind]:
    """The options of a dataclass, or of an instance, by name."""
    return {name: f.metadata["kind"] for name, f in declared(made).items()}

"""The fields of TRL's config: ours, made of options; and all their types, checked before TRL uses them."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from dataclasses import Field, field, fields
from enum import Enum
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from tpo.options import TABLE, declared, help_text, shown

NAMES = {
    bool: "True or False",
    int: "a whole number",
    float: "a number",
    str: "text",
    dict: "a table",
    list: "a list",
}


def trl_name(option: Field[Any]) -> str:
    """The name of an option in TRL's config."""
    return str(option.metadata.get("trl", option.name))


def with_fields(*classes: type) -> Callable[[Any], Any]:
    """A decorator of a class, before `dataclass`: a field for every option of these classes.

    Their metadata is a help text alone, since TRL's parser passes all on to argparse. It reads tables as text.
    """

    def extended(config: Any) -> Any:
        for options in classes:
            hints = get_type_hints(options)
            for name, f in declared(options).items():
                default, hint = f.default, hints[name]
                if f.metadata["kind"] is TABLE:
                    default, hint = None, dict[str, Any] | str | None
                    config._VALID_DICT_FIELDS = [*config._VALID_DICT_FIELDS, trl_name(f)]
                made = field(default=default, metadata={"help": help_text(f)})
                setattr(config, trl_name(f), made)
                config.__annotations__[trl_name(f)] = hint
        return config

    return extended


def check_types(config: Any) -> None:
    """Raise for a field whose value is of another type; None, and types that are not plain, are not judged."""
    hints = get_type_hints(type(config))
    for f in fields(config):
        value, plain = getattr(config, f.name), _plain(hints[f.name])
        if value is None or not plain:
            continue
        if not any(_fits(value, kind) for kind in plain):
            expected = " or ".join(NAMES[kind] for kind in plain)
            raise ValueError(f"{f.name} is {shown(value)}, expected {expected}")


def _plain(hint: Any) -> list[type]:
    """The types of an annotation; none if one of them is not plain."""
    members = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    found: list[type] = []
    for member in members:
        kind = get_origin(member) or member
        if isinstance(kind, type) and issubclass(kind, Enum):
            kind = str
        if kind is NoneType:
            continue
        if kind not in NAMES:
            return []
        found.append(kind)
    return found


def _fits(value: Any, kind: type) -> bool:
    """Whether a value is of the type; a number may be written as text, as YAML reads 1e-5."""
    if kind is str:
        return isinstance(value, (str, Enum, os.PathLike))
    if kind is list:
        return isinstance(value, (list, tuple))
    if kind is dict:  # or an object with the same fields, such as accelerate's
        return not isinstance(value, (bool, int, float, str, list, tuple, set))
    if kind not in (int, float):
        return isinstance(value, kind)
    try:
        number = float(value) if not isinstance(value, bool) else math.nan
    except (TypeError, ValueError, OverflowError):
        return False
    return not math.isnan(number) and (kind is float or number.is_integer())

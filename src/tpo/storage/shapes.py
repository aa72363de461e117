"""Fields of a dataclass that comes from a file or a user: each has the type that its annotation names."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

_KINDS: dict[Any, tuple[type, ...]] = {float: (int, float), int: (int,)}
"""What JSON has for a number."""


def check_fields(one: Any) -> None:
    """TypeError that names the first field whose value, or what is in it, has another type.

    A list may take the place of a tuple of any length.
    """
    hints = _hints(type(one))  # type: ignore[arg-type]  # a class is hashable
    for field in fields(one):
        value = getattr(one, field.name)
        if not _fits(value, hints[field.name]):
            raise TypeError(f"{field.name} is {value!r:.60}, expected {field.type}")


@functools.cache
def _hints(of: type) -> dict[str, Any]:
    return get_type_hints(of)


def _fits(value: Any, hint: Any) -> bool:
    kind, parts = get_origin(hint), get_args(hint)
    if hint is Any:
        return True
    if kind in (Union, UnionType):
        return any(_fits(value, part) for part in parts)
    if kind is tuple:
        if parts[-1] is ...:
            return isinstance(value, (tuple, list)) and all(_fits(x, parts[0]) for x in value)
        return (
            isinstance(value, tuple) and len(value) == len(parts) and all(map(_fits, value, parts))
        )
    if isinstance(kind, type) and issubclass(kind, Mapping):
        of_key, of_value = parts
        return isinstance(value, Mapping) and all(
            _fits(key, of_key) and _fits(x, of_value) for key, x in value.items()
        )
    if is_dataclass(value) and isinstance(value, hint):
        check_fields(value)
    is_number = hint in _KINDS
    return isinstance(value, _KINDS.get(hint, hint)) and not (is_number and isinstance(value, bool))

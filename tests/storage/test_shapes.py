"""Fields that come from a file have the types of their annotations, or the wrong one is named."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from tpo.storage.shapes import check_fields


@dataclass(frozen=True)
class Inner:
    number: float = 1.0


@dataclass(frozen=True)
class Outer:
    name: str = "a"
    count: int = 2
    size: float = 3
    values: Mapping[str, str | float] = field(default_factory=lambda: {"H": 7, "task": "copy"})
    inner: tuple[Inner, ...] = (Inner(), Inner(2))
    pair: tuple[str, int] | None = ("a", 1)
    anything: Any = None


WRONG: dict[str, list[Any]] = {
    "name": [1, None, ["a"]],
    "count": [1.5, "2", True, None],
    "size": ["3", False, [3.0]],
    "values": [["H", 7], {1: 2.0}, {"H": None}, {"H": [7]}],
    "inner": [Inner(), (1,), "ab", None],
    "pair": [("a",), ("a", "b"), ("a", 1, 1), ["a", 1], "ab"],
    "number": ["1", None],
}


def refused(one: Any) -> str:
    """The name of the field that is refused; "" if none is."""
    try:
        check_fields(one)
    except TypeError as error:
        return str(error).partition(" ")[0]
    return ""


def test_right_values_are_accepted() -> None:
    right = [
        Outer(),
        Outer(pair=None),
        Outer(inner=()),
        Outer(inner=[Inner()]),  # type: ignore[arg-type]
        Outer(anything=[{}]),
    ]
    assert [refused(one) for one in right] == [""] * len(right)
    assert refused(Outer(name=1)) == "name"  # type: ignore[arg-type]


@pytest.mark.parametrize(("name", "value"), [(k, v) for k, vs in WRONG.items() for v in vs])
def test_a_wrong_value_is_named(name: str, value: Any) -> None:
    changed = {"inner": (Inner(value),)} if name == "number" else {name: value}
    with pytest.raises(TypeError, match=f"^{name} is .*, expected "):
        check_fields(replace(Outer(), **changed))

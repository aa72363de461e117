"""Every option of every objective refuses every kind of wrong value, by name; so does each argument of the API."""

from __future__ import annotations

import math
from dataclasses import fields
from typing import Any

import numpy as np
import pytest

import tpo
from tpo.objectives import entry

WRONG: list[Any] = [
    None, "x y", "", b"x", math.nan, math.inf, -math.inf, np.nan, -1.5, 10**400, -(10**400), 1j, [], {},
    [1.0], {"a": 1}, {1}, object(), np.zeros(2), np.zeros((2, 3)), (1.0, math.nan), (1.0, "x"), ("x",), type,
]  # fmt: skip
"""What no option of any objective accepts."""


def options() -> list[tuple[str, str]]:
    return [(name, f.name) for name in tpo.list_objectives() for f in fields(entry(name).make)]


@pytest.mark.parametrize("name", tpo.list_objectives())
def test_a_wrong_value_names_the_option_and_what_it_accepts(name: str) -> None:
    for option in (option for of, option in options() if of == name):
        for value in WRONG:
            with pytest.raises(ValueError, match=f"option {option} is .*expected ") as refused:
                tpo.objective(name, **{option: value})
            assert len(str(refused.value).splitlines()) == 1
        with pytest.raises(TypeError, match=f"{name} has no option '{option}x'. Did you mean"):
            tpo.objective(name, **{f"{option}x": 1})


def test_every_objective_is_counted() -> None:
    assert len(options()) * (len(WRONG) + 1) >= 3000


@pytest.mark.parametrize("name", [None, 3, "", [], {}, b"tpo", "TPO", "tpo ", tpo.objective("tpo")])
def test_a_wrong_name_lists_the_valid_ones(name: Any) -> None:
    with pytest.raises((ValueError, TypeError), match="unknown objective .* Valid names: tpo, "):
        tpo.objective(name)

"""The table beside an objective's equation explains every symbol of it; what is missing is named."""

import importlib
import inspect
import re
import sys
from types import ModuleType

import pytest

import tpo
from support import ROOT
from tpo.objectives.base import entry


@pytest.fixture(scope="module")
def tables() -> ModuleType:
    sys.path.insert(0, str(ROOT / "docs"))
    try:
        return importlib.import_module("_symbols")
    finally:
        sys.path.pop(0)


@pytest.mark.parametrize(
    ("equation", "symbols"),
    [
        (r"L = -\frac1B\sum_b\frac{1}{BK}\sum_i", ["L", "B", "K"]),
        (r"\mathrm{sg}(\mathrm{clip}(r_{it}, floor, cap))", ["sg", "r", "floor", "cap"]),
        (r"\epsilon_{low} \ge \pi_\theta - \min(rA, 0)", ["low", r"\epsilon", r"\pi", "r", "A"]),
        (r"e^{x_i/\tau} \text{ if } \overline{\mathrm{mean}}_{top}", ["top", r"\tau", "x"]),
        (r"\sum_{j \ne i} 1[i = y]\, w^k\, \mathrm{KL}(p\|q)", ["w", "k", "p", "q"]),
    ],
)
def test_symbols_are_letters_and_words_without_indices(
    tables: ModuleType, equation: str, symbols: list[str]
) -> None:
    assert tables.symbols(f".. math:: {equation}") == symbols


def test_every_symbol_of_every_equation_is_explained(tables: ModuleType) -> None:
    assert tables.missing([entry(name).make for name in tpo.list_objectives()]) == []


@pytest.mark.parametrize("symbol", ["floor", "cap"])
def test_a_symbol_without_a_row_is_named_with_what_to_add(
    tables: ModuleType, monkeypatch: pytest.MonkeyPatch, symbol: str
) -> None:
    known = {key: words for key, words in tables.OWN["CISPO"].items() if key != symbol}
    monkeypatch.setitem(tables.OWN, "CISPO", known)
    (message,) = tables.missing([entry("cispo").make])
    assert f"does not explain {symbol} of its equation" in message
    assert f'add r"{symbol}": "what it is" to OWN["CISPO"]' in message


def test_no_row_is_left_over(tables: ModuleType) -> None:
    """A class of its own rows exists, and its equation has what they explain."""
    made = {entry(name).make.__name__: entry(name).make for name in tpo.list_objectives()}
    for of, rows in tables.OWN.items():
        equation = (inspect.getdoc(made[of]) or "").split("\n\n")[1]
        for tex, meaning in rows.items():
            for name in tables.symbols(tex) if meaning else ():
                before = "" if name.startswith("\\") else "(?<![A-Za-z])"
                found = re.search(rf"{before}{re.escape(name)}(?![a-z])", equation)
                assert found, (of, tex, name)

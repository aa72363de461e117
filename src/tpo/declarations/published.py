"""The published numbers, each with its source."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from math import inf
from typing import Any


@dataclass(frozen=True)
class Published:
    """One number: `coords` as text; `value` as printed, such as "6.9", ">95" or "-" for never."""

    study: str
    coords: Mapping[str, str]
    method: str
    metric: str
    value: str
    source: str

    @property
    def range(self) -> tuple[float, float]:
        """Lower and upper bound of the unrounded number; both infinite for never.

        6.9 is 6.85 to 6.95, ~90 is 85 to 95, >95 any above, and ~85-87 from one to the other.
        """
        if self.value == "-":
            return inf, inf
        sign, text = self.value[:1], self.value.lstrip("~<>")
        if sign in "<>":
            return (-inf, float(text)) if sign == "<" else (float(text), inf)
        ends = text.split("-") if "-" in text[1:] else [text]
        half = _half_unit(ends[-1], rough=sign == "~")
        return float(ends[0]) - half, float(ends[-1]) + half

    def fits(self, study: str, coords: Mapping[str, Any], method: str) -> bool:
        """Is this number of that method, at that point of the study?"""
        here = {key: str(value) for key, value in coords.items()}
        return (self.study, self.method) == (study, method) and dict(self.coords) == here


@lru_cache(maxsize=1)
def published_numbers() -> tuple[Published, ...]:
    """Every published number, from published.csv."""
    text = (files("tpo.declarations") / "published.csv").read_text(encoding="utf-8")
    return tuple(
        Published(**{**row, "coords": _coords(row["coords"])})  # type: ignore[arg-type]
        for row in csv.DictReader(text.splitlines())
    )


def _half_unit(text: str, rough: bool) -> float:
    """Half a unit of the last digit; for a rough number, of the last digit that is not 0."""
    digits = len(text.partition(".")[2])
    zeros = len(text) - len(text.rstrip("0")) if rough and not digits else 0
    return 0.5 * 10.0 ** (zeros - digits)


def _coords(text: str) -> dict[str, str]:
    return dict(pair.split("=", 1) for pair in text.split(";") if pair)

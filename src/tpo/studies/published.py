"""The numbers that were published, each with where it stands."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
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

    def fits(self, study: str, coords: Mapping[str, Any], method: str) -> bool:
        """Is this number about that method there?"""
        here = {key: str(value) for key, value in coords.items()}
        return (
            (self.study, self.method) == (study, method) and dict(self.coords) == here
        )  # fmt: skip


@lru_cache(maxsize=1)
def published() -> tuple[Published, ...]:
    """Every published number, from published.csv."""
    text = (files("tpo.studies") / "published.csv").read_text(encoding="utf-8")
    return tuple(
        Published(**{**row, "coords": _coords(row["coords"])})  # type: ignore[arg-type]
        for row in csv.DictReader(text.splitlines())
    )


def _coords(text: str) -> dict[str, str]:
    return dict(pair.split("=", 1) for pair in text.split(";") if pair)

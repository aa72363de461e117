"""Tuning: every method tries every value of one option alike, with seeds that are not reported."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tpo.llm.comparison.method import Method, value_of, word
from tpo.storage.former_names import FORMER_OPTIONS

FIRST_SEED = 10_000
"""Added to a reported seed for a seed of tuning."""
SEEDS = 2
"""Seeds of tuning. A value chosen by one seed alone made other seeds collapse."""


@dataclass(frozen=True)
class Tuning:
    """Values of an option to try, on so many seeds, for so many rollout batches (0: as many as reported)."""

    option: str
    values: tuple[Any, ...]
    seeds: int = SEEDS
    batches: int = 0

    def __post_init__(self) -> None:
        if len(self.values) < 2:
            raise ValueError(
                f"tune holds {len(self.values)} values of {self.option}: give two or more, such as "
                "learning_rate=3e-6,1e-5,3e-5"
            )
        for value in self.values:
            if self.values.count(value) > 1:
                raise ValueError(
                    f"tune holds {self.option}={value} {self.values.count(value)} times: give each value once"
                )
        if self.seeds < 1:
            raise ValueError(f"tune_seeds is {self.seeds}, expected at least 1")
        if self.batches < 0:
            raise ValueError(f"tune_batches is {self.batches}, expected at least 1")

    def tried(self, method: Method) -> list[Method]:
        """The method with each of the values; one that sets the option itself cannot be tuned."""
        if self.option in dict(method.options):
            raise ValueError(
                f"method {method.name!r} sets {self.option}, which is tuned: leave it out of the method"
            )
        return [method.with_option(self.option, value) for value in self.values]

    def plain(self) -> dict[str, Any]:
        """As comparison.json holds it."""
        return {
            "tune": {self.option: list(self.values)},
            "tune_seeds": self.seeds,
            "tune_batches": self.batches,
        }

    @property
    def flags(self) -> str:
        """As the command line takes it."""
        values = ",".join(map(word, self.values))
        words = f"--tune {self.option}={values} --tune-seeds {self.seeds}"
        return words + (f" --tune-batches {self.batches}" if self.batches else "")


def tuning(given: Mapping[str, Any]) -> Tuning | None:
    """From `tune` (OPTION=VALUE,VALUE as text, or {OPTION: [VALUE, ...]}), `tune_seeds`, `tune_batches`."""
    if "tune" not in given:
        extra = [name for name in ("tune_seeds", "tune_batches") if name in given]
        if extra:
            raise ValueError(f"{extra[0]} says how to tune, but not what: give --tune too")
        return None
    name, values = _grid(given["tune"])
    option = FORMER_OPTIONS.get(name, name)
    return Tuning(
        option, tuple(values), given.get("tune_seeds", SEEDS), given.get("tune_batches", 0)
    )


def _grid(given: Any) -> tuple[str, Sequence[Any]]:
    if isinstance(given, Mapping) and len(given) == 1:
        option, values = next(iter(given.items()))
        if isinstance(values, Sequence) and not isinstance(values, str):
            return option, [value_of(str(value)) for value in values]
    elif isinstance(given, str) and "=" in given:
        option, _, text = given.partition("=")
        return option.strip(), [value_of(value) for value in text.split(",") if value]
    raise ValueError(
        f"tune is {given!r}, expected one option and its values: learning_rate=3e-6,1e-5"
    )

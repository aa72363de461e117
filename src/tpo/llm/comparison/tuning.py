"""Tuning: every method is run with each value of one option, on seeds that are not reported."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tpo.llm.comparison.method import MethodSpec
from tpo.llm.comparison.options import ComparisonOptions
from tpo.llm.comparison.sweep import option_and_values
from tpo.objectives.method_syntax import written_value

SEED_OFFSET = 10_000
"""A tuning seed is a reported seed plus this."""


@dataclass(frozen=True)
class Tuning:
    """An option, the values to try, and the number of seeds and rollout batches (0: as many as reported)."""

    option: str
    values: tuple[Any, ...]
    seeds: int = ComparisonOptions.tune_seeds
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

    def variants(self, method: MethodSpec) -> list[MethodSpec]:
        """The method with each of the values; a method that sets the option itself cannot be tuned."""
        if self.option in dict(method.options):
            raise ValueError(
                f"method {method.name!r} sets {self.option}, which is tuned: leave it out of the method"
            )
        return [method.with_option(self.option, value) for value in self.values]

    def to_dict(self) -> dict[str, Any]:
        """As comparison.json holds it."""
        return {
            "tune": {self.option: list(self.values)},
            "tune_seeds": self.seeds,
            "tune_batches": self.batches,
        }

    @property
    def flags(self) -> str:
        """As the command line takes it."""
        values = ",".join(map(written_value, self.values))
        flags = f"--tune {self.option}={values} --tune-seeds {self.seeds}"
        return flags + (f" --tune-batches {self.batches}" if self.batches else "")


def read_tuning(options: Mapping[str, Any]) -> Tuning | None:
    """From `tune` (OPTION=VALUE,VALUE as text, or {OPTION: [VALUE, ...]}), `tune_seeds`, `tune_batches`."""
    if "tune" not in options:
        extra = [name for name in ("tune_seeds", "tune_batches") if name in options]
        if extra:
            raise ValueError(f"{extra[0]} says how to tune, but not what: give --tune too")
        return None
    option, values = option_and_values("tune", options["tune"])
    seeds, batches = (
        options.get("tune_seeds", ComparisonOptions.tune_seeds),
        options.get("tune_batches", 0),
    )
    return Tuning(option, tuple(values), seeds, batches)

"""What each side of a comparison was given: its variants, learning rates and gradient clipping."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from tpo.reports.markdown import report_page
from tpo.reports.markdown.headline import OWN, Summary
from tpo.reports.markdown.notes import Note

SEPARATE = ("learning_rate", "max_grad_norm")
"""Options that are counted by themselves; all others make a variant."""


@dataclass(frozen=True)
class Side:
    """The settings of one side."""

    settings: int
    variants: int
    rates: int
    """One rate per method that tuning chose counts as one."""
    clipped: int
    """Of the settings, those with a bound on the gradient norm."""

    @classmethod
    def of(cls, methods: Iterable[str], shared: Mapping[str, Any]) -> Side:
        """Counted from the methods of a comparison and the options that they share."""
        read = [_options(method) for method in methods]
        bounds = [
            float(found.get("max_grad_norm", shared.get("max_grad_norm", 1.0))) for found in read
        ]
        rates = {
            float(found.get("learning_rate", shared.get("learning_rate", 0))) for found in read
        }
        variants = {
            tuple(sorted(p for p in found.items() if p[0] not in SEPARATE)) for found in read
        }
        return cls(len(read), len(variants), len(rates), sum(bound > 0 for bound in bounds))

    def cells(self) -> list[str]:
        """Settings, variants, rates, and how many settings are clipped."""
        return [
            str(self.settings),
            str(self.variants),
            str(self.rates),
            f"{self.clipped} of {self.settings}",
        ]


def _options(method: str) -> dict[str, str]:
    """{"": objective, option: value} of "grpo:epochs=4:learning_rate=6e-06"."""
    name, *pairs = method.split(":")
    return {"": name, **dict(pair.split("=", 1) for pair in pairs)}


def sides(summary: Summary) -> tuple[Side, Side]:
    """TPO's side, and that of all other methods."""
    methods = [one["method"] for one in summary["methods"]]
    own = [method for method in methods if method.split(":")[0] in OWN]
    others = [method for method in methods if method not in own]
    return Side.of(own, summary["settings"]), Side.of(others, summary["settings"])


def table(compared: Mapping[str, Summary], planned: Mapping[str, Note]) -> str:
    """A row per planned comparison."""
    what = ("settings", "variants", "rates", "clipped")
    heads = ["comparison", *(f"{side}: {one}" for side in ("TPO", "GRPO") for one in what)]
    found = {name: sides(compared[name]) for name in planned}
    lines = [
        [
            f"[{report_page.text(planned[name].title)}](comparisons/{name}.md)",
            *own.cells(),
            *other.cells(),
        ]
        for name, (own, other) in found.items()
    ]
    return report_page.raw_grid(heads, lines, [False] + [True] * 8)

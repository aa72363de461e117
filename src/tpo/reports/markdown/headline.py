"""A comparison of language models in one line: its best TPO beside its best GRPO."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tpo.reports.labels import readable
from tpo.reports.wording import number
from tpo.stats.curves import first_reach, goal
from tpo.stats.intervals import difference

Summary = Mapping[str, Any]
OWN = ("tpo", "tpo_outcomes")
"""The objectives that count as TPO."""
SAMPLED = "final sampled accuracy %"
SHARES = (0.5, 0.9, 1.0)
"""Of GRPO's gain in accuracy."""
DASH = "–"


@dataclass(frozen=True)
class Pair:
    """The settings of TPO and of GRPO with the highest final sampled accuracy, chosen on the reported seeds.

    `own_side`, such as "max_grad_norm=0.0", limits TPO's to those with that option.
    """

    summary: Summary
    tpo: str
    grpo: str

    @classmethod
    def of(cls, summary: Summary, own_side: str = "") -> Pair | None:
        """The pair of a comparison; None if it lacks either side, an error if no TPO has `own_side`."""
        final = by_metric(summary).get(SAMPLED, {})
        own = [
            m["method"]
            for m in summary["methods"]
            if m["method"].split(":")[0] in OWN and final.get(m["method"], {}).get("n")
        ]
        baseline = next((m["method"] for m in summary["methods"] if m["baseline"]), None)
        if own_side and not (own := [m for m in own if own_side in m.split(":")[1:]]):
            raise ValueError(f"TPO's side is {own_side!r}, which no TPO of the comparison has")
        if not own or baseline is None:
            return None
        return cls(summary, max(own, key=lambda method: final[method]["mean"]), baseline)

    @property
    def seeds(self) -> int:
        return int(self._row(SAMPLED, self.tpo)["n"])

    @property
    def settings(self) -> tuple[list[str], list[str]]:
        """The options of both, in words."""
        tpo, grpo = (readable(method).split(", ")[1:] for method in (self.tpo, self.grpo))
        return tpo, grpo

    def finals(self, metric: str = SAMPLED) -> tuple[str, str]:
        """Both means, as text."""
        return self._mean(metric, self.tpo), self._mean(metric, self.grpo)

    @property
    def pass_at_k(self) -> tuple[str, str]:
        """Both means of pass@k, as text."""
        metric = next((m for m in by_metric(self.summary) if m.startswith("pass@")), "")
        return self.finals(metric)

    def gap(self, metric: str = SAMPLED) -> str:
        """TPO minus GRPO in points, with Student's 95% interval, paired over seeds; bold if it excludes 0."""
        left, right = (self._row(metric, m).get("values") for m in (self.tpo, self.grpo))
        if not left or not right:
            return DASH
        n = min(len(left), len(right))
        mean = float(np.mean(np.subtract(left[:n], right[:n])))
        if n < 2:
            return f"{mean:.1f}"
        low, high = difference(np.array(left), np.array(right))
        words = f"{mean:.1f}"
        return f"{f'**{words}**' if low > 0 or high < 0 else words} ({low:.1f} to {high:.1f})"

    def relative_rollouts(self, share: float) -> str:
        """TPO's rollouts to this share of GRPO's gain, divided by GRPO's, on the mean curves."""
        known = {panel["coords"]["measure"]: panel["series"] for panel in self.summary["panels"]}
        lines = {series["method"]: series for series in known.get("sampled", [])}
        if not {self.tpo, self.grpo} <= lines.keys():
            return DASH
        own, other = lines[self.tpo], lines[self.grpo]
        wanted = goal(other["mean"], share)
        if wanted is None or not (needed := first_reach(other["x"], other["mean"], wanted)):
            return DASH
        reached = first_reach(own["x"], own["mean"], wanted)
        return "never" if reached is None else number(reached / needed)

    def _row(self, metric: str, method: str) -> Mapping[str, Any]:
        found: Mapping[str, Any] = by_metric(self.summary).get(metric, {}).get(method, {})
        return found

    def _mean(self, metric: str, method: str) -> str:
        row = self._row(metric, method)
        return number(row["mean"]) if row.get("n") else DASH


def by_metric(summary: Summary) -> dict[str, dict[str, Any]]:
    """The rows of the table by metric and method."""
    known: dict[str, dict[str, Any]] = {}
    for row in summary["table"]["rows"]:
        known.setdefault(row["metric"], {})[row["method"]] = row
    return known


def table(pair: Pair) -> tuple[list[str], list[list[str]]]:
    """Headings and cells: the two settings, side by side, and their difference."""
    solved = next((m for m in by_metric(pair.summary) if m.startswith("pass@")), "")
    heads = [
        "",
        "setting",
        "final accuracy %",
        *([solved.removeprefix("final ")] if solved else []),
    ]
    heads += [f"rollouts to {share:.0%} of GRPO's gain, relative" for share in SHARES]
    own, other = (", ".join(options) or "defaults" for options in pair.settings)
    rows = [
        ["TPO", own, pair.finals()[0], *([pair.pass_at_k[0]] if solved else []),
         *(pair.relative_rollouts(share) for share in SHARES)],
        ["GRPO", other, pair.finals()[1], *([pair.pass_at_k[1]] if solved else []),
         *("1" for _ in SHARES)],
        ["TPO - GRPO", "", pair.gap(), *([pair.gap(solved)] if solved else []), *("" for _ in SHARES)],
    ]  # fmt: skip
    return heads, rows

"""The README's section: the tally of published numbers, and a line of numbers for some figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tpo.reports.markdown.sections import Section, at
from tpo.reports.markdown.study_page import tally
from tpo.reports.wording import number

FINAL = "final error %"
HIGHLIGHTS: tuple[tuple[str, Mapping[str, Any], str], ...] = (
    (
        "terminal",
        {"H": 10, "matching": "prompt"},
        "with 10-token answers and equal prompts",
    ),
)
"""What the README shows: a study's figure, and its numbers at one point of the grid, described in words."""


def highlights(found: Sequence[Section]) -> str:
    """The README's section: the tally, then a line of numbers for some figures, which it links."""
    known = {one["name"]: one for one in found}
    shown = []
    for name, where, described in HIGHLIGHTS:
        if words := _line(known[name], where, described):
            title = known[name]["title"]
            words = words[0].upper() + words[1:]
            shown.append(f"- **[{title}](docs/figures/{name}.svg).** {words}")
    return "\n".join([tally(found), "", *shown])


def _line(section: Section, where: Mapping[str, Any], described: str) -> str:
    """The numbers of every method at that point of the grid, each with the published one in brackets."""
    rows = [row for row in at(section, where) if row.get("ours") is not None]
    if not rows:
        return ""
    metric = rows[0]["metric"]
    found: dict[str, str] = {}
    for row in rows:
        if row["metric"] == metric or metric == FINAL:
            found.setdefault(row["method"], _number(row, metric))
    numbers = ", ".join(found.values())
    return f"{metric} {described} [a repetition's range]: {numbers}."


def _number(row: Mapping[str, Any], metric: str) -> str:
    """`TPO 7.1 [4.2, 10] (paper 7.4)`; for a row of another metric, the mean, which every row has."""
    if row["metric"] != metric:
        return f"{row['method']} {number(row['mean'])}"
    words = f"{row['method']} {number(row['ours'])}"
    if row.get("low") is not None:
        words += f" [{number(row['low'], 2)}, {number(row['high'], 2)}]"
    return f"{words} (paper {row['published']})" if row.get("published") else words

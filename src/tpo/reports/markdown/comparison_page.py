"""docs/research/comparisons: the page of one comparison of language models."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tpo.reports.labels import readable, readable_text, shortened, value_words
from tpo.reports.markdown import report_page
from tpo.reports.markdown.headline import Pair, Summary, by_metric, table
from tpo.reports.markdown.notes import Note
from tpo.reports.markdown.study_page import verdict
from tpo.reports.wording import duration, number
from tpo.stats.verdicts import OPEN

COLUMNS = {
    "final sampled accuracy %": "sampled %",
    "final accuracy %": "greedy %",
    "pass@": "pass@{k} %",
    "final entropy": "entropy",
    "informative groups %": "informative %",
    "clipped steps %": "clipped %",
    "KL from the start": "KL",
    "seconds per step": "s/step",
    "peak memory GB": "GB",
}
"""Metrics of a comparison's table and their headings; a metric that no method has is left out."""
ACCURACIES = 3
"""The first three columns are accuracies with an interval; the columns about rollouts follow them."""


def page(name: str, one: Summary, note: Note) -> str:
    """The page of one comparison."""
    cost = one["cost"]
    runs = f"{one['progress']['cells_done']} runs{_tuning_runs(one.get('tuning'))}"
    title = report_page.text(note.title or title_of(name, one))
    parts = [
        f"# {title}",
        f"**Question.** {note.question}" if note.question else "",
        f"**Answer.** {note.answer}" if note.answer else "",
        _headline(one, note.own_side),
        f"![{title}](../../figures/{figure_file(name)})",
        "## Numbers",
        _table(one),
        "What the columns mean: [how to read the tables](index.md#how-to-read-the-tables).",
        _verdicts(one),
        f"## Notes\n\n{note.remarks}" if note.remarks else "",
        f"## Tuning\n\n{_tuning(one['tuning'])}" if one.get("tuning") else "",
        "## Setting",
        report_page.text(f"{one['title']}. {runs}, {duration(cost['seconds'])} in total on {cost['device']}."),
        report_page.text(readable_text(one["about"])),
        report_page.facts("Settings", one["settings"]),
        report_page.facts("Provenance", one["provenance"]),
        "The command that repeats these runs:",
        report_page.code(one["command"]),
    ]  # fmt: skip
    return "\n\n".join(part for part in parts if part) + "\n"


def title_of(name: str, one: Summary) -> str:
    """The title of a comparison without a note: `my runs: SmolLM2-135M on toy:sort`."""
    return f"{name}: {one['title']}"


def figure_file(name: str) -> str:
    """The file of a comparison's figure, in `docs/figures`."""
    return f"llm-{name}.svg"


def _headline(one: Summary, own_side: str) -> str:
    """The best TPO beside the best GRPO, and what the numbers are; empty if either is missing."""
    pair = Pair.of(one, own_side)
    if pair is None:
        return ""
    heads, rows = table(pair)
    cells = [
        [report_page.text(cell) if i < 2 else cell for i, cell in enumerate(row)] for row in rows
    ]
    grid = report_page.raw_grid(heads, cells, [False, False, *[True] * (len(heads) - 2)])
    seeds = (
        "one seed"
        if pair.seeds == 1
        else f"{pair.seeds} seeds, 95% interval of the paired difference, bold if it excludes 0"
    )
    planned = (
        f", TPO with {readable(f'tpo:{own_side}').split(', ', 1)[1]}, as planned"
        if own_side
        else ""
    )
    return f"{grid}\n\nBoth sides at their best setting on the reported seeds{planned}; {seeds}."


def _verdicts(one: Summary) -> str:
    """A line per claim that holds or does not hold, then the number of undecided ones."""
    known = one["verdicts"]
    names, _ = shortened(method["label"] for method in one["methods"])
    clear = [claim for claim in known if claim["status"] != OPEN]
    lines = [verdict(claim, names) for claim in clear]
    left = len(known) - len(clear)
    if left:
        rest = "other " if clear else ""
        noun = "comparison" if left == 1 else "comparisons"
        lines.append(f"- ? {left} {rest}{noun} with GRPO (rollouts or final error): undecided")
    return "\n".join(lines)


def _tuning_runs(tuning: Mapping[str, Any] | None) -> str:
    return f" and {len(tuning['rows']) * len(tuning['seeds'])} tuning runs" if tuning else ""


def _table(one: Summary) -> str:
    """A row per method."""
    known = by_metric(one)
    shown = {
        metric: COLUMNS[key].format(k=metric[5:-2])
        for key in COLUMNS
        for metric in known
        if metric == key or (key == "pass@" and metric.startswith(key))
    }
    timed = next((m["threshold"] for m in one["methods"] if m["threshold"] is not None), None)
    first, later = list(shown)[:ACCURACIES], list(shown)[ACCURACIES:]
    middle = [f"rollouts to {timed:.1%}", "relative to GRPO"] if timed is not None else []
    heads = ["method", *(shown[m] for m in first), *middle, *(shown[m] for m in later)]
    names, shared = shortened(method["label"] for method in one["methods"])
    lines = []
    for method in one["methods"]:
        name = method["method"]
        lines.append(
            [
                names[method["label"]],
                *(_cell(known[metric].get(name), True) for metric in first),
                *(_timing(method) if middle else ()),
                *(_cell(known[metric].get(name), False) for metric in later),
            ]
        )
    grid = report_page.grid(heads, lines, [False, *[True] * (len(heads) - 1)])
    return f"All methods with {', '.join(shared)}.\n\n{grid}" if shared else grid


def _cell(row: Mapping[str, Any] | None, interval: bool) -> str:
    if row is None or not row["n"]:
        return "–"
    low, high = row["iqm_low"], row["iqm_high"]
    ends = f" [{number(low)}, {number(high)}]" if interval and low is not None else ""
    return f"{number(row['mean'])}{ends}"


def _timing(method: Mapping[str, Any]) -> list[str]:
    """Rollouts to the threshold, how many seeds reach it, and the ratio to the baseline."""
    reached = f"({method['reached']} of {method['seeds']})"
    if method["rollouts"] is None:
        return [f"never {reached}", "–"]
    return [f"{method['rollouts']:,.0f} {reached}", number(method["ratio"])]


def _tuning(tuning: Mapping[str, Any] | None) -> str:
    """The accuracy at every value that was tried, a row per method; the best is marked."""
    if not tuning:
        return ""
    values = list(dict.fromkeys(row["value"] for row in tuning["rows"]))
    labels = list(dict.fromkeys((row["method"], row["label"]) for row in tuning["rows"]))
    tried = {(row["method"], row["value"]): row for row in tuning["rows"]}
    lines = [
        [readable(label), *(_tried(tried[method, value]) for value in values)]
        for method, label in labels
    ]
    heads = [tuning["option"].replace("_", " "), *(value_words(v) for v in values)]
    seeds = "seeds " if len(tuning["seeds"]) > 1 else "seed "
    seeds += ", ".join(map(str, tuning["seeds"]))
    words = (
        f"Tuning with {seeds} and {tuning['batches']} rollout batches: sampled accuracy in %, mean over all "
        "evaluations. ★ marks the value that is reported above, ✗ a value with which a seed did not improve."
    )

    grid = report_page.grid(heads, lines, [False, *[True] * len(values)])
    return f"{report_page.text(words)}\n\n{grid}"


def _tried(row: Mapping[str, Any]) -> str:
    if row["accuracy"] is None:
        return "failed" if row["error"] else "–"
    return number(row["accuracy"]) + " ✗" * bool(row["nowhere"]) + " ★" * row["chosen"]

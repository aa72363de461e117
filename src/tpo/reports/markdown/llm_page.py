"""docs/llm-results.md: the comparisons of language models that are kept: figure, tables, command of each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tpo.reports.markdown import report_page
from tpo.reports.wording import duration, number
from tpo.stats.curves import first_reach, goal
from tpo.stats.verdicts import OPEN

INTRODUCTION = """# Language models: results

Methods trained on the same prompts, seeds and number of rollouts (completions sampled for training). This
page is written by

    tpo evidence

from the summaries in `docs/evidence/llm`, which `tpo evidence DIR` takes from the folders of
`tpo train --compare`; remarks come from `docs/evidence/llm-notes.md`. The command under a comparison runs it
again."""

NOTHING = """No comparison is kept yet. One is added by

    tpo train --model Qwen/Qwen3-1.7B --task gsm8k --compare tpo,grpo --seeds 3 --out DIR
    tpo evidence DIR"""

LEGEND = """\
Accuracy is on held-out prompts: the mean score of samples, the share that greedy decoding solves, and
pass@k. A number is the mean over seeds, in brackets the 95% bootstrap interval of the interquartile
mean. Rollouts is when the mean over seeds, on straight lines between evaluations, has first gone 90% of the
way from the start to where GRPO ends (of samples, with one pass or several, whichever ends better), in
brackets how many seeds reach that by themselves; × GRPO is what part that is of the same GRPO's. Entropy is
of the last tenth of training; informative are groups whose scores differ, over all of training; clipped are
steps whose gradient was longer than TRL's `max_grad_norm` and was cut to it; KL is from the start to the
end. Seconds and GB are a run's own, and runs at the same time share a device. A verdict rests on Student's
95% interval of the difference, seed by seed, where a seed that never reaches the accuracy counts with one
rollout batch more than the budget; three seeds decide little."""

OVERVIEW = """\
The TPO that ends with the most samples right beside the GRPO that does, of those that a comparison holds; both
are picked on the seeds that are reported. × GRPO is what part of that GRPO's rollouts TPO needs: to half of the
way from the start to where GRPO ends, to 90% of it (the goal of the sections), and to all of it. Comparisons
may share runs, and the remarks on one say where a rate was chosen badly."""
OWN = ("tpo", "tpo_outcomes")
"""The objectives that the overview takes for TPO."""
SHARES = (0.5, 0.9, 1.0)
"""Of the way to where GRPO ends, for the overview."""

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
"""Metrics of the wide table and their headings, where any method has them."""
ACCURACIES = 3
"""The first so many have an interval, and after them come the rollouts."""

Summary = Mapping[str, Any]


def page(kept: Mapping[str, Summary], notes: Mapping[str, str]) -> str:
    """The whole page, from the comparisons by name and remarks by the same names, in whose order they come."""
    unknown = sorted({*notes} - {*kept})
    if unknown:
        raise ValueError(
            f"the notes on language models speak of {', '.join(unknown)}, expected names of comparisons "
            f"that are kept ({', '.join(kept) or 'none'})"
        )
    if not kept:
        return f"{INTRODUCTION}\n\n{NOTHING}\n"
    ordered = {name: kept[name] for name in (*notes, *kept)}
    sections = [_section(name, one, notes.get(name, "")) for name, one in ordered.items()]
    parts = [INTRODUCTION, LEGEND, _overview(ordered), *sections]
    return "\n\n".join(part for part in parts if part) + "\n"


def picture(name: str) -> str:
    """Where the figure of a comparison lies in the documentation."""
    return f"figures/llm-{name}.svg"


def _overview(kept: Mapping[str, Summary]) -> str:
    """A line for each comparison of TPO with GRPO."""
    numbers = [
        *(f"× GRPO to {share:.0%}" for share in SHARES),
        *("TPO sampled %", "GRPO sampled %", "TPO pass@k %", "GRPO pass@k %"),
    ]
    heads = ["comparison", "seeds", "TPO", "GRPO", *numbers]
    lines = [
        [
            f"[{report_page.text(name)}](#{report_page.anchor(_title(name, one))})",
            *map(report_page.text, line),
        ]
        for name, one in kept.items()
        if (line := _best(one))
    ]
    if not lines:
        return ""
    table = report_page.raw_grid(heads, lines, [False, True, False, False, *[True] * len(numbers)])
    return f"{OVERVIEW}\n\n{table}"


def _best(one: Summary) -> list[str]:
    """The TPO that ends best beside the GRPO that does; nothing where one of them is missing."""
    known = _by_metric(one)
    ends = known.get("final sampled accuracy %", {})
    solved = next((rows for metric, rows in known.items() if metric.startswith("pass@")), {})
    ended = {method: row for method, row in ends.items() if row["n"]}
    own = [m for m in one["methods"] if m["method"].split(":")[0] in OWN and m["method"] in ended]
    baseline = next((m for m in one["methods"] if m["baseline"]), None)
    if not own or baseline is None:
        return []
    best = max(own, key=lambda m: ended[m["method"]]["mean"])
    return [
        str(ended[best["method"]]["n"]),
        best["label"],
        baseline["label"],
        *(_sooner(one, best["method"], baseline["method"], share) for share in SHARES),
        *(_cell(rows.get(m["method"]), False) for rows in (ends, solved) for m in (best, baseline)),
    ]


def _sooner(one: Summary, method: str, baseline: str, share: float) -> str:
    """A method's rollouts to this share of the baseline's way, as a part of the baseline's."""
    known = {panel["coords"]["measure"]: panel["series"] for panel in one["panels"]}
    lines = {series["method"]: series for series in known.get("sampled", [])}
    if not {method, baseline} <= lines.keys():
        return "–"
    own, other = lines[method], lines[baseline]
    wanted = goal(other["mean"], share)
    if wanted is None:
        return "–"
    needed = first_reach(other["x"], other["mean"], wanted)
    reached = first_reach(own["x"], own["mean"], wanted)
    if not needed:
        return "–"
    return "never" if reached is None else number(reached / needed)


def _by_metric(one: Summary) -> dict[str, dict[str, Any]]:
    """The rows of the table by metric and method."""
    known: dict[str, dict[str, Any]] = {}
    for row in one["table"]["rows"]:
        known.setdefault(row["metric"], {})[row["method"]] = row
    return known


def _title(name: str, one: Summary) -> str:
    return f"{name}: {one['title']}"


def _section(name: str, one: Summary, notes: str) -> str:
    cost = one["cost"]
    runs = f"{one['progress']['cells_done']} runs{_trials(one.get('tuning'))}"
    parts = [
        f"## {report_page.text(_title(name, one))}",
        report_page.text(f"{runs}, {duration(cost['seconds'])} in sum on {cost['device']}"),
        notes,
        f"![{report_page.text(one['title'])}]({picture(name)})",
        _table(one),
        _verdicts(one["verdicts"]),
        _tuning(one.get("tuning")),
        report_page.text(one["about"]),
        report_page.facts("Settings", one["settings"]),
        report_page.facts("Provenance", one["provenance"]),
        report_page.code(one["command"]),
    ]
    return "\n\n".join(part for part in parts if part)


def _verdicts(known: Sequence[Mapping[str, str]]) -> str:
    """What is decided, line by line; of the rest how many."""
    decided = [one for one in known if one["status"] != OPEN]
    lines = [report_page.verdict(one) for one in decided]
    left = len(known) - len(decided)
    if left:
        rest = "other " if decided else ""
        lines.append(
            f"- ? {left} {rest}comparisons with GRPO, of rollouts or final error, undecided"
        )
    return "\n".join(lines)


def _trials(tuning: Mapping[str, Any] | None) -> str:
    return f" and {len(tuning['rows']) * len(tuning['seeds'])} of tuning" if tuning else ""


def _table(one: Summary) -> str:
    """A method a line."""
    known = _by_metric(one)
    shown = {
        metric: COLUMNS[key].format(k=metric[5:-2])
        for key in COLUMNS
        for metric in known
        if metric == key or (key == "pass@" and metric.startswith(key))
    }
    timed = next((m["threshold"] for m in one["methods"] if m["threshold"] is not None), None)
    first, later = list(shown)[:ACCURACIES], list(shown)[ACCURACIES:]
    middle = [f"rollouts to {timed:.1%}", "× GRPO"] if timed is not None else []
    heads = ["method", *(shown[m] for m in first), *middle, *(shown[m] for m in later)]
    lines = []
    for method in one["methods"]:
        name = method["method"]
        lines.append(
            [
                method["label"],
                *(_cell(known[metric].get(name), True) for metric in first),
                *(_timing(method) if middle else ()),
                *(_cell(known[metric].get(name), False) for metric in later),
            ]
        )
    return report_page.grid(heads, lines, [False, *[True] * (len(heads) - 1)])


def _cell(row: Mapping[str, Any] | None, interval: bool) -> str:
    if row is None or not row["n"]:
        return "–"
    low, high = row["iqm_low"], row["iqm_high"]
    ends = f" [{number(low)}, {number(high)}]" if interval and low is not None else ""
    return f"{number(row['mean'])}{ends}"


def _timing(method: Mapping[str, Any]) -> list[str]:
    """When the threshold is reached, by how many seeds, and against the baseline."""
    reached = f"({method['reached']} of {method['seeds']})"
    if method["rollouts"] is None:
        return [f"never {reached}", "–"]
    return [f"{method['rollouts']:,.0f} {reached}", number(method["ratio"])]


def _tuning(tuning: Mapping[str, Any] | None) -> str:
    """Every value that was tried, a method a line; the best marked."""
    if not tuning:
        return ""
    values = list(dict.fromkeys(row["value"] for row in tuning["rows"]))
    labels = list(dict.fromkeys((row["method"], row["label"]) for row in tuning["rows"]))
    tried = {(row["method"], row["value"]): row for row in tuning["rows"]}
    lines = [
        [label, *(_tried(tried[method, value]) for value in values)] for method, label in labels
    ]
    heads = [tuning["option"], *(f"{v:g}" if isinstance(v, float) else str(v) for v in values)]
    seeds = ", ".join(map(str, tuning["seeds"]))
    words = (
        f"Tuning, with seed {seeds} and {tuning['batches']} rollout batches: accuracy of samples in %, mean "
        "over all evaluations; ★ is the value reported, ✗ one with which a seed did not improve."
    )
    grid = report_page.grid(heads, lines, [False, *[True] * len(values)])
    return f"{report_page.text(words)}\n\n{grid}"


def _tried(row: Mapping[str, Any]) -> str:
    if row["accuracy"] is None:
        return "failed" if row["error"] else "–"
    return number(row["accuracy"]) + " ✗" * bool(row["nowhere"]) + " ★" * row["chosen"]

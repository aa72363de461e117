"""docs/research/index.md: a template in which every number of the evidence is a placeholder.

A placeholder is `{{kind argument; argument; ...}}`:

    {{agree}} {{lower}} {{higher}} {{noisy}} {{run}}  published numbers by verdict, and how many were run
    {{claims holds}}                              claims about the paper's studies with this status
    {{lab STUDY; H=10, matching=prompt; METHOD}}  our value of the published metric, with its interval
    {{end STUDY; V=2; METHOD}}                    the mean final error
    {{seeds STUDY; V=2; METHOD}}
    {{failed STUDY; METHOD}}                      `2 of 80`: runs that failed completely
    {{fisher STUDY; METHOD}}                      p of as many failures as the first method has
    {{medians STUDY; METHOD}}                     `3 of 4`: in how many settings its median is lower
    {{final NAME; tpo:epochs=4; METRIC}}          a comparison: the mean over seeds, one decimal
    {{gap NAME; tpo:epochs=4; grpo; METRIC}}      the difference of two settings, with its interval
    {{pairs}}                                     a table of the planned comparisons, best TPO beside best GRPO
    {{sides}}                                     a table of what both sides of these were given
    {{significant}}                               in how many of these the difference in accuracy excludes 0
    {{history}}                                   a table of the claims whose verdict changed

METRIC is "final sampled accuracy %" where it is left out. An empty point of the grid is `-`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from tpo.reports.markdown import report_page, sides
from tpo.reports.markdown.claims_history import Entry, changes
from tpo.reports.markdown.headline import SAMPLED, Pair, Summary, by_metric
from tpo.reports.markdown.notes import Note
from tpo.reports.markdown.sections import NOT_RUN, Section, at
from tpo.reports.markdown.study_page import claims, counts
from tpo.reports.wording import number
from tpo.stats.repetition import AGREES, HIGHER, LOWER, NOISY

Kind = Callable[..., str]
_PLACEHOLDER = re.compile(r"\{\{(\w+) ?([^{}]*)\}\}")


def page(template: str, kinds: Mapping[str, Kind]) -> str:
    """The template with its numbers; a placeholder without evidence is an error that names it."""

    def value(match: re.Match[str]) -> str:
        try:
            return kinds[match[1]](*(word.strip() for word in match[2].split(";") if word.strip()))
        except (KeyError, TypeError, ValueError, StopIteration) as error:
            raise ValueError(f"{match[0]} has no number in the evidence: {error!r}") from error

    return _PLACEHOLDER.sub(value, template)


def placeholders(
    found: Sequence[Section],
    compared: Mapping[str, Summary],
    planned: Mapping[str, Note],
    history: Sequence[Entry],
) -> dict[str, Kind]:
    """What each kind of placeholder says; planned: the notes of these comparisons, by name, in order."""
    shown = {"history": lambda: _history(history)}
    return {**_of_studies(found), **_of_comparisons(compared, planned), **shown}


def _history(history: Sequence[Entry]) -> str:
    """A row per claim whose verdict changed, the latest change first."""
    lines = [
        [
            f"[{report_page.text(new.study)}](studies/{new.study}.md)",
            *map(report_page.text, (new.claim, old.verdict, new.verdict, new.rules, new.date)),
        ]
        for old, new in reversed(changes(history))
    ]
    heads = ["study", "claim", "before", "now", "rules", "date"]
    return report_page.raw_grid(heads, lines, [False] * 4 + [True] * 2) if lines else "None so far."


def _of_studies(found: Sequence[Section]) -> dict[str, Kind]:
    """The placeholders on studies."""
    known = {one["name"]: one for one in found}
    total = sum((counts(one) for one in found), Counter())
    statuses = claims(found, ours=False)

    def row(study: str, where: str, method: str) -> Mapping[str, Any]:
        pairs = (pair.split("=") for pair in where.split(",") if "=" in pair)
        coords = {key.strip(): value.strip() for key, value in pairs}
        return next(row for row in at(known[study], coords) if row["method"] == method)

    def with_interval(study: str, where: str, method: str) -> str:
        one = row(study, where, method)
        if one["low"] is None or isinstance(one["ours"], str):
            return number(one["ours"])
        unit = "%" if "%" in one["metric"].split() else ""
        return f"{number(one['ours'])}{unit} ({number(one['low'])} to {number(one['high'])})"

    def failures(study: str, method: str) -> Mapping[str, Any]:
        return next(row for row in known[study]["complete_failures"] if row["method"] == method)

    return {
        "agree": lambda: str(total[AGREES]),
        "lower": lambda: str(total[LOWER]),
        "higher": lambda: str(total[HIGHER]),
        "noisy": lambda: str(total[NOISY]),
        "run": lambda: str(total.total() - total[NOT_RUN]),
        "claims": lambda status: str(statuses[status]),
        "lab": with_interval,
        "end": lambda *place: f"{number(row(*place)['mean'])}%",
        "solved": lambda *place: f"{row(*place)['solved']} of {row(*place)['n']}",
        "seeds": lambda *place: str(row(*place)["n"]),
        "failed": lambda *place: f"{failures(*place)['failed']} of {failures(*place)['runs']}",
        "fisher": lambda *place: f"{failures(*place)['p']:.0e}".replace("e-0", "e-"),
        "medians": lambda *place: str(failures(*place)["lower"]),
    }


def _of_comparisons(
    compared: Mapping[str, Summary], planned: Mapping[str, Note]
) -> dict[str, Kind]:
    """The placeholders on comparisons of language models."""

    def final(name: str, method: str, metric: str = SAMPLED) -> str:
        return f"{by_metric(compared[name])[metric][method]['mean']:.1f}"

    def gap(name: str, tpo: str, grpo: str, metric: str = SAMPLED) -> str:
        known = by_metric(compared[name])[metric]
        return Pair(compared[name], known[tpo]["method"], known[grpo]["method"]).gap(metric)

    def pairs() -> dict[str, Pair]:
        found = {name: Pair.of(compared[name], note.own_side) for name, note in planned.items()}
        return {name: pair for name, pair in found.items() if pair}

    return {
        "final": final,
        "gap": gap,
        "pairs": lambda: _pairs(pairs(), planned),
        "sides": lambda: sides.table(compared, planned),
        "significant": lambda: _significant(pairs().values()),
    }


def _significant(pairs: Collection[Pair]) -> str:
    return f"{sum(pair.gap().startswith('**') for pair in pairs)} of {len(pairs)}"


def _pairs(known: Mapping[str, Pair], planned: Mapping[str, Note]) -> str:
    """A row per comparison: both settings, accuracy, its difference, pass@k and relative rollouts."""
    heads = ["comparison", "TPO's setting", "GRPO's setting", "accuracy %: TPO, GRPO", "TPO - GRPO",
             "pass@16, TPO - GRPO", "rollouts to match GRPO, relative", "seeds"]  # fmt: skip
    lines = []
    options = [one for pair in known.values() for one in pair.settings]
    shared = [one for one in options[0] if all(one in other for other in options)]
    for name, pair in known.items():
        solved = next(m for m in by_metric(pair.summary) if m.startswith("pass@"))
        settings = (
            ", ".join(one for one in options if one not in shared) or "defaults"
            for options in pair.settings
        )
        lines.append([
            f"[{report_page.text(planned[name].title)}](comparisons/{name}.md)",
            *map(report_page.text, settings),
            ", ".join(pair.finals()), pair.gap(), pair.gap(solved), pair.relative_rollouts(1.0),
            str(pair.seeds),
        ])  # fmt: skip
    grid = report_page.raw_grid(heads, lines, [False] * 3 + [True] * 5)
    return f"All settings: {', '.join(shared) or 'see the pages'}.\n\n{grid}"

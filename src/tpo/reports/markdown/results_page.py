"""docs/results.md: every published number beside ours, and the lines that the README shows of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tpo.lab import studies
from tpo.lab.studies.method_specs import label
from tpo.lab.studies.published import Published, published_numbers
from tpo.lab.studies.study import Study
from tpo.reports import comparisons
from tpo.reports.evidence import planned
from tpo.reports.load import StudyResult
from tpo.reports.markdown import report_page
from tpo.reports.page_data import plain
from tpo.reports.panels import named
from tpo.reports.summary import summary
from tpo.reports.tables import AGREES, HIGHER, LOWER
from tpo.reports.wording import LEGEND, number
from tpo.stats.verdicts import LEAST

NOT_RUN = "not run"
FINAL = "final error %"
VERDICTS = (AGREES, LOWER, HIGHER)
CLAIMS = {"holds": "hold", "does not hold": "do not hold", "undecided": "undecided"}
LANGUAGE_MODELS = "language_models"
TRAINING = "tpo train --model Qwen/Qwen3-1.7B --task gsm8k --compare tpo,grpo"

INTRODUCTION = """# Results

The numbers of the figures and tables of the TPO paper (arXiv 2604.06159) and of its talk, beside ours. This
page is written by

    tpo evidence

from the summaries in `docs/evidence`, which `tpo evidence DIR` takes from the folders of finished runs;
remarks come from `docs/evidence/notes.md`. Nothing was tuned to match. The command under a table runs
it again; on another device the same seeds give other curves (rounding decides early, see
`docs/lab.md`), so compare distributions over seeds, not seeds. A claim holds, or does not, when
Student's 95% interval of the difference, seed by seed, lies on one side of zero, or all of six seeds or
more do; level means within a twentieth of the larger mean."""

HIGHLIGHTS: tuple[tuple[str, Mapping[str, Any]], ...] = (
    ("terminal", {"H": 10, "matching": "prompt"}),
    ("vocab", {"V": 2}),
    ("mnist", {}),
    ("staleness", {"D": 100}),
)
"""What the README shows: a study's figure, and its numbers at one point of the grid."""

Section = Mapping[str, Any]
"""A study as `tpo.reports.summary` gives it, with every published number, its figure and its notes."""


def sections(
    results: Sequence[StudyResult], notes: Mapping[str, str], compared: Iterable[Section] = ()
) -> list[Section]:
    """One per study, run or not; then the language models, with the numbers of comparisons that are kept."""

    known = {result.study.name: result for result in results}
    unknown = sorted({*notes} - {*studies.list_studies(), LANGUAGE_MODELS})
    if unknown:
        raise ValueError(
            f"the notes speak of {', '.join(unknown)}, expected names of studies "
            f"({', '.join(studies.list_studies())}) or {LANGUAGE_MODELS}"
        )
    names = [name for name in studies.list_studies() if name != "demo" or name in known]
    found = [
        section(studies.get_study(name), known.get(name), notes.get(name, "")) for name in names
    ]
    return [*found, _language_models(notes.get(LANGUAGE_MODELS, ""), list(compared))]


def page(found: Sequence[Section]) -> str:
    """The whole page."""
    parts = [
        INTRODUCTION,
        tally(found),
        _overview(found),
        LEGEND,
        *(report_page.study(plain(one), explained=False).rstrip() for one in found),
    ]
    return "\n\n".join(parts) + "\n"


def _language_models(notes: str, compared: Sequence[Section]) -> Section:

    numbers = [p for p in published_numbers() if p.study == LANGUAGE_MODELS]
    found = [comparisons.row(p, compared) for p in numbers]
    rows = [row or _missing(p, p.method.upper()) for p, row in zip(numbers, found, strict=True)]
    return {
        "name": LANGUAGE_MODELS, "title": "Language models", "source": "language models", "scale": "full",
        "about": "The paper's tasks for language models, with LoRA and 16 completions a prompt. They need "
        "a GPU and the models; the command is for the first of them. Comparisons that were run, of these and "
        "other models and tasks, are in docs/llm-results.md.",
        "command": TRAINING, "table": {"rows": rows}, "verdicts": [], "notes": notes,
        "progress": {"cells_done": sum(row is not None for row in found), "cells": len(rows)},
    }  # fmt: skip


def section(study: Study, result: StudyResult | None, notes: str) -> dict[str, Any]:
    """The study's summary with every published number in its table, run or not."""
    if result is None:
        found: dict[str, Any] = {
            "name": study.name, "title": study.title, "source": study.source, "about": study.about,
            "command": f"tpo run {study.name} --scale full", "scale": "full",
            "table": {"rows": []}, "verdicts": [],
        }  # fmt: skip
    else:
        found = {**summary(result), "figure": f"figures/{study.name}.svg"}
        notes = "\n\n".join(filter(None, [_fewer(result), notes]))
    cells = result.cells if result else planned(study, "full")
    return {
        **found,
        "table": {"rows": complete(study, found["table"]["rows"])},
        "progress": {"cells_done": sum(cell.done for cell in cells), "cells": len(cells)},
        "notes": notes,
    }


def complete(study: Study, rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The rows, and one that says so for every published number that none of them has."""

    have = {_key(row) for row in rows}
    known = [
        (p, label(p.method, study.labels)) for p in published_numbers() if p.study == study.name
    ]
    found = [dict(row) for row in rows]
    found += [row for row in (_missing(*one) for one in known) if _key(row) not in have]
    if study.ranked:
        return found
    places = [_texts(coords) for coords in study.coordinates(study.scale("full"))]
    methods = [label(method, study.labels) for method in study.methods]

    def order(row: Mapping[str, Any]) -> tuple[int, int]:
        return _index(places, _texts(row["coords"])), _index(methods, row["method"])

    return sorted(found, key=order)


def _missing(number: Published, label: str) -> dict[str, Any]:
    return {
        "coords": dict(number.coords), "method": label, "metric": number.metric,
        "published": number.value, "agreement": NOT_RUN,
    }  # fmt: skip


def _key(row: Mapping[str, Any]) -> tuple[str, str, str]:
    return str(_texts(row["coords"])), row["method"], row["metric"]


def _texts(coords: Mapping[str, Any]) -> dict[str, str]:
    return {key: str(value) for key, value in coords.items()}


def _index(values: Sequence[Any], value: Any) -> int:
    return values.index(value) if value in values else len(values)


def _fewer(result: StudyResult) -> str:
    """Which cells have fewer seeds than the study at full scale."""
    full = result.study.scale("full")
    found: dict[tuple[int, int], list[str]] = {}
    for cell in result.cells:
        usual = int(full.settings_at(result.study, cell.coords)["seeds"])
        if cell.done and cell.seeds < usual:
            where = ", ".join(filter(None, [named(cell.coords), cell.label]))
            found.setdefault((cell.seeds, usual), []).append(where)
    words = [f"{n} of {usual} seeds: {'; '.join(where)}." for (n, usual), where in found.items()]
    return f"Fewer seeds than the study has at full scale. {' '.join(words)}" if words else ""


def tally(found: Sequence[Section]) -> str:
    """How many numbers agree, and what became of the claims."""
    rows = [row for one in found for row in one["table"]["rows"]]
    count = Counter(row.get("agreement") for row in rows if row.get("published") is not None)
    total = sum(count.values())
    decided = sum(count[verdict] for verdict in VERDICTS)
    claims = Counter(verdict["status"] for one in found for verdict in one["verdicts"])
    ruled = ", ".join(f"{claims[status]} {words}" for status, words in CLAIMS.items())
    return (
        f"**{total} published numbers.** {decided} have been run: {count[AGREES]} agree, "
        f"ours is lower for {count[LOWER]} and higher for {count[HIGHER]}. {total - decided} have not "
        f"been run, or with fewer than {LEAST} seeds. "
        f"**{sum(claims.values())} claims** of the studies that were run: {ruled}."
    )


def _overview(sections: Sequence[Section]) -> str:
    heads = ["study", "source", "runs", "numbers", "agree", "lower", "higher", "not run", "claims"]
    lines = []
    for found in sections:
        rows = [row for row in found["table"]["rows"] if row.get("published") is not None]
        count = Counter(row.get("agreement") for row in rows)
        signs = " ".join(report_page.SIGNS[v["status"]] for v in found["verdicts"])
        progress = found["progress"]
        counts = [len(rows), *(count[v] for v in VERDICTS), count[NOT_RUN] + count[None]]
        lines.append([
            f"[{found['title']}](#{report_page.anchor(found['title'])})", found["source"],
            f"{progress['cells_done']}/{progress['cells']}", *(str(n) for n in counts), signs or "–",
        ])  # fmt: skip
    return report_page.raw_grid(heads, lines, [False, False, *[True] * 6, False])


def highlights(found: Sequence[Section]) -> str:
    """The README's section: the tally, then the figures that matter most, a line of numbers over each."""
    known = {one["name"]: one for one in found}
    shown = [tally(found)]
    for name, where in HIGHLIGHTS:
        if words := _line(known[name], where):
            title = known[name]["title"]
            words = words[0].upper() + words[1:]
            shown.append(f"**{title}.** {words}\n\n![{title}](docs/figures/{name}.svg)")
    return "\n\n".join(shown)


def _line(section: Section, where: Mapping[str, Any]) -> str:
    """The numbers of every method at that point of the grid, what was published in brackets."""
    rows = [
        row
        for row in section["table"]["rows"]
        if _texts(row["coords"]) == _texts(where) and row.get("ours") is not None
    ]
    if not rows:
        return ""
    metric = rows[0]["metric"]
    found: dict[str, str] = {}
    for row in rows:
        if row["metric"] == metric or metric == FINAL:
            found.setdefault(row["method"], _number(row, metric))
    numbers = ", ".join(found.values())
    return f"{', '.join(filter(None, [named(where), metric]))}: {numbers}."


def _number(row: Mapping[str, Any], metric: str) -> str:
    """`TPO 7.1 (paper 7.4)`; of a row about another metric the mean, which every row has."""
    if row["metric"] != metric:
        return f"{row['method']} {number(row['mean'])}"
    words = f"{row['method']} {number(row['ours'])}"
    return f"{words} (paper {row['published']})" if row.get("published") else words

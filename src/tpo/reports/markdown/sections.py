"""Studies as pages show them: their summary, every published number beside ours, and the note on them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tpo import declarations
from tpo.declarations.published import Published, published_numbers
from tpo.declarations.study import Study
from tpo.objectives.method_syntax import label
from tpo.reports import comparisons
from tpo.reports.evidence import planned
from tpo.reports.labels import readable
from tpo.reports.load import StudyResult
from tpo.reports.markdown.notes import Note, check, linked
from tpo.reports.panels import named
from tpo.reports.summary import summary

NOT_RUN = "not run"
LANGUAGE_MODELS = "language_models"
TRAINING = "tpo train --model Qwen/Qwen3-1.7B --task gsm8k --compare tpo,grpo"

Section = Mapping[str, Any]
"""A study as `tpo.reports.summary` gives it, with every published number, its figure and its notes."""


def sections(
    results: Sequence[StudyResult], notes: Mapping[str, Note], compared: Iterable[Section] = ()
) -> list[Section]:
    """One per study, run or not; then the language models, with the numbers of the given comparisons."""
    known = {result.study.name: result for result in results}
    check("notes on studies", notes, [*declarations.list_studies(), LANGUAGE_MODELS])
    names = [name for name in declarations.list_studies() if name != "demo" or name in known]
    found = [section(declarations.get_study(name), known.get(name)) for name in names]
    found.append(_language_models(list(compared)))
    places = {one["name"]: f"{one['name']}.md" for one in found}
    return [_with_note(one, notes.get(one["name"], Note()), places) for one in found]


def _with_note(found: Section, note: Note, places: dict[str, str]) -> Section:
    """The section under the title of its note, with its question, answer and remarks."""
    remarks = "\n\n".join(
        filter(None, [found["notes"], linked(note.remarks, found["name"], places)])
    )
    question = note.question or found.get("question")
    words = {"question": question, "answer": note.answer, "notes": remarks}
    return {**found, **words, "title": note.title or found["title"]}


def _language_models(compared: Sequence[Section]) -> dict[str, Any]:
    numbers = [p for p in published_numbers() if p.study == LANGUAGE_MODELS]
    found = [comparisons.row(p, compared) for p in numbers]
    rows = [row or _missing(p, p.method.upper()) for p, row in zip(numbers, found, strict=True)]
    return {
        "name": LANGUAGE_MODELS, "title": "Language models", "source": "language models", "scale": "full",
        "about": "The paper's tasks for language models, with LoRA and 16 completions per prompt. They need "
        "a GPU and the models. The command starts the first of them.",
        "command": TRAINING, "table": {"rows": rows}, "verdicts": [], "notes": "",
        "progress": {"cells_done": sum(row is not None for row in found), "cells": len(rows)},
    }  # fmt: skip


def section(study: Study, result: StudyResult | None) -> dict[str, Any]:
    """The study's summary with every published number in its table, run or not."""
    if result is None:
        found: dict[str, Any] = {
            "name": study.name, "title": study.title, "source": study.source, "question": study.question,
            "about": study.about, "command": f"tpo run {study.name} --scale full", "scale": "full",
            "table": {"rows": []}, "verdicts": [],
        }  # fmt: skip
    else:
        found = {**summary(result), "figure": f"../../figures/{study.name}.svg"}
    cells = result.cells if result else planned(study, "full")
    return {
        **found,
        "table": {"rows": complete(study, found["table"]["rows"])},
        "progress": {"cells_done": sum(cell.done for cell in cells), "cells": len(cells)},
        "notes": _fewer(result) if result else "",
    }


def complete(study: Study, rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The rows, and a row "not run" for every published number that is in none of them."""
    have = {_key(row) for row in rows}
    known = [(p, label(p.method, study.labels)) for p in study.published]
    found = [dict(row) for row in rows]
    found += [row for row in (_missing(*one) for one in known) if _key(row) not in have]
    if study.ranked:
        return found
    places = [_texts(coords) for coords in study.coordinates(study.scale("full"))]
    methods = [label(method, study.labels) for method in study.methods]

    def order(row: Mapping[str, Any]) -> tuple[int, int]:
        return _index(places, _texts(row["coords"])), _index(methods, row["method"])

    return sorted(found, key=order)


def at(found: Section, where: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The rows of the study's table at that point of its grid."""
    return [row for row in found["table"]["rows"] if _texts(row["coords"]) == _texts(where)]


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
    """A note on the cells that have fewer seeds than the study at full scale."""
    full = result.study.scale("full")
    found: dict[tuple[int, int], list[str]] = {}
    for cell in result.cells:
        usual = int(full.settings_at(result.study, cell.coords)["seeds"])
        if cell.done and cell.seeds < usual:
            where = ", ".join(filter(None, [named(cell.coords), readable(cell.label)]))
            found.setdefault((cell.seeds, usual), []).append(where)
    words = [f"{n} of {usual} seeds for {'; '.join(where)}." for (n, usual), where in found.items()]
    return f"Fewer seeds than at full scale: {' '.join(words)}" if words else ""

"""The files that are generated from the evidence: the pages of docs/research, figures, the README's section."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from tpo import declarations
from tpo.reports import comparisons, evidence
from tpo.reports.gather import gather
from tpo.reports.load import StudyResult
from tpo.reports.markdown import (
    claims_history,
    comparison_index,
    comparison_page,
    front_page,
    study_page,
)
from tpo.reports.markdown.notes import Note, check, groups, linked, notes
from tpo.reports.markdown.readme import highlights
from tpo.reports.markdown.sections import Section, sections
from tpo.reports.svg import llm_figure
from tpo.reports.svg.figures import figure
from tpo.storage.files import write_text

BEGIN, END = "<!-- results: written by tpo evidence -->", "<!-- end of results -->"


def folder_of(docs: Path) -> Path:
    """The folder of the evidence."""
    return docs / "evidence"


def made(docs: Path, results: Sequence[StudyResult]) -> dict[Path, str]:
    """Every generated file, with its text: pages, today's declarations, statistics computed again."""
    folder = folder_of(docs)
    checked = comparisons.checked(folder)
    compared = {path.stem: comparisons.current(one) for path, one in checked.items()}
    found = sections(results, notes(folder), compared.values())
    texts = {path: comparisons.text(one) for path, one in checked.items()} | {
        **_studies(docs, found),
        **_comparisons(docs, compared),
    }
    for result in results:
        texts[docs / "figures" / f"{result.study.name}.svg"] = figure(result).svg()
    texts |= _renewed(folder, results)
    history = claims_history.updated(folder, found)
    if history:
        texts[folder / claims_history.FILE] = claims_history.text(history)
    template = folder / "research/index.md"
    if template.is_file():
        text = template.read_text(encoding="utf-8")
        kinds = front_page.placeholders(found, compared, _planned(folder), history)
        texts[docs / "research/index.md"] = front_page.page(text, kinds)
    readme = docs.parent / "README.md"
    if readme.is_file() and BEGIN in (text := readme.read_text(encoding="utf-8")):
        texts[readme] = _replaced(readme, text, highlights(found))
    return texts


def _renewed(folder: Path, results: Sequence[StudyResult]) -> dict[Path, str]:
    """The evidence of the library's studies, with their declarations of today."""
    known = {folder / f"{result.study.name}.json": result.study for result in results}
    return {
        path: evidence.renewed(path.read_text(encoding="utf-8"), study)
        for path, study in known.items()
        if path.is_file() and study.name in declarations.list_studies()
    }


def _planned(folder: Path) -> dict[str, Note]:
    """The notes of the first group of comparisons, which were planned before they were run."""
    written = notes(folder / "llm")
    first, *_ = groups(folder / "llm/index.md", written)
    return {name: written[name] for name in first.names}


def _studies(docs: Path, found: Sequence[Section]) -> dict[Path, str]:
    """A page per study, and their index."""
    folder = docs / "research/studies"
    ordered = groups(folder_of(docs) / "index.md", [one["name"] for one in found])
    pages = {folder / f"{one['name']}.md": study_page.page(one) for one in found}
    return {folder / "index.md": study_page.index(found, ordered), **pages}


def _comparisons(docs: Path, compared: Mapping[str, Any]) -> dict[Path, str]:
    """A page and a figure per comparison of language models, and their index."""
    folder, kept = docs / "research/comparisons", folder_of(docs) / "llm"
    written = notes(kept)
    check(f"notes in {kept}", written, compared)
    places = {name: f"{name}.md" for name in compared}
    index = comparison_index.index(compared, written, groups(kept / "index.md", compared))
    texts = {folder / "index.md": index}
    for name, summary in compared.items():
        note = written.get(name, Note())
        note = replace(note, remarks=linked(note.remarks, name, places))
        texts[folder / f"{name}.md"] = comparison_page.page(name, summary, note)
        drawn = llm_figure.figure(summary, note.title).svg()
        texts[docs / "figures" / comparison_page.figure_file(name)] = drawn
    return texts


def write(docs: Path, results: Sequence[StudyResult]) -> list[Path]:
    """Write the files that are not up to date, and return their paths."""
    old = stale(docs, results)
    for path, text in old.items():
        write_text(path, text)
    return list(old)


def stale(docs: Path, results: Sequence[StudyResult]) -> dict[Path, str]:
    """The files that are missing or out of date, with their current text."""
    return {
        path: text
        for path, text in made(docs, results).items()
        if not path.is_file() or path.read_text(encoding="utf-8") != text
    }


def kept(docs: Path) -> list[StudyResult]:
    """The results of the studies in the evidence; an error if there is no evidence at all."""
    folder = folder_of(docs)
    if not evidence.files(folder):
        if comparisons.read(folder):
            return []
        raise ValueError(
            f"--docs is {str(docs)!r}, and {folder} holds no evidence: give the folder of finished "
            "runs, such as: tpo evidence results/full"
        )
    return gather([folder])


def _replaced(readme: Path, text: str, section: str) -> str:
    before, _, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not end:
        raise ValueError(f"{readme} has {BEGIN!r} without {END!r} after it: restore the line")
    return f"{before}{BEGIN}\n{section}\n{END}{after}"

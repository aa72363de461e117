"""The files that are generated from the evidence: results.md, llm-results.md, figures, the README's section."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from tpo.reports import comparisons, evidence
from tpo.reports.gather import gather
from tpo.reports.load import StudyResult
from tpo.reports.markdown import llm_page
from tpo.reports.markdown.results_page import highlights, page, sections
from tpo.reports.svg import llm_figure
from tpo.reports.svg.figures import figure
from tpo.storage.files import write_text

BEGIN, END = "<!-- results: written by tpo evidence -->", "<!-- end of results -->"


def folder_of(docs: Path) -> Path:
    """The folder of the evidence."""
    return docs / "evidence"


def made(docs: Path, results: Sequence[StudyResult]) -> dict[Path, str]:
    """Every generated file, with its text."""
    folder = folder_of(docs)
    compared = comparisons.read(folder)
    found = sections(results, notes(folder / "notes.md"), compared.values())
    remarks = notes(folder / "llm-notes.md")
    texts = {
        docs / "research/results.md": page(found),
        docs / "research/llm-results.md": llm_page.page(compared, remarks),
    }
    for name, summary in compared.items():
        texts[docs / "figures" / llm_page.figure_file(name)] = llm_figure.figure(summary).svg()
    for result in results:
        texts[docs / "figures" / f"{result.study.name}.svg"] = figure(result).svg()
    readme = docs.parent / "README.md"
    if readme.is_file() and BEGIN in (text := readme.read_text(encoding="utf-8")):
        texts[readme] = _replaced(readme, text, highlights(found))
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
            f"{folder} holds no evidence: give the folder of finished runs, such as: "
            "tpo evidence results/full"
        )
    return gather([folder])


def notes(path: Path) -> dict[str, str]:
    """Remarks by study or comparison: the paragraphs under each `## NAME` of a file; none without the file."""
    if not path.is_file():
        return {}
    _, *pieces = re.split(r"^## (\S+)\s*$", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return {name: text.strip() for name, text in zip(pieces[::2], pieces[1::2], strict=True)}


def _replaced(readme: Path, text: str, section: str) -> str:
    before, _, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not end:
        raise ValueError(f"{readme} has {BEGIN!r} without {END!r} after it: restore the line")
    return f"{before}{BEGIN}\n{section}\n{END}{after}"

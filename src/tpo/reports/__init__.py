"""The report: one self-contained HTML file of figures, tables, verdicts and a playground; and Markdown."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tpo.reports.html import page
from tpo.reports.markdown import report_page
from tpo.reports.notebook.results import Results, open_results, results_of
from tpo.reports.summary import summarise
from tpo.reports.svg.axes import Axis
from tpo.reports.svg.plot import bars, lines, side_by_side
from tpo.storage.files import write_text


def write(*folders: Path, out: Path | None = None) -> Path:
    """Write the report of stores and evidence as HTML and Markdown, and return the path of the HTML file.

    The report of an unfinished study shows its progress. A store without a study is an error.
    out: the HTML file, by default `report.html` in the first folder; the Markdown file is beside it.
    """
    out = Path(folders[0]) / "report.html" if out is None else Path(out)
    return write_studies(summarise(*folders), out)


def write_studies(studies: list[dict[str, Any]], out: Path) -> Path:
    """`write` for given summaries: dicts as `tpo.reports.summary.summarise` returns them."""
    _replace(out, page.report(studies))
    _replace(out.with_suffix(".md"), report_page.report(studies))
    return out


def write_playground(out: Path) -> Path:
    """Write the playground alone as one HTML file and return its path."""
    _replace(Path(out), page.playground())
    return Path(out)


def _replace(path: Path, text: str) -> None:
    """Write the file; an existing folder of that name is an error."""
    if path.is_dir():
        raise ValueError(f"{path} is a folder, expected the name of a file such as report.html")
    write_text(path, text)


__all__ = [
    "Axis", "Results", "bars", "lines", "open_results", "results_of", "side_by_side", "write",
    "write_playground", "write_studies",
]  # fmt: skip

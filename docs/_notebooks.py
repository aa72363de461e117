"""Every page whose code the build runs is also a notebook to download."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import jupytext
from docutils import nodes
from sphinx.application import Sphinx

FOLDER = "_notebooks"
KERNEL = {"name": "python3", "display_name": "Python 3", "language": "python"}
CHAPTER = re.compile(r"\]\((\d\d-[\w-]+)\)")
"""A link from one chapter of the course to another; their notebooks lie beside each other too."""
LINK = '<p class="notebook"><a href="{url}" download>Download this page as a notebook</a></p>'


def runs_code(source: Path) -> bool:
    """Whether the front matter asks MyST-NB to execute the page."""
    text = source.read_text(encoding="utf-8") if source.suffix == ".md" else ""
    return text.startswith("---\n") and "file_format: mystnb" in text.split("\n---", 1)[0]


def name_of(page: str) -> str:
    return f"{FOLDER}/{page}.ipynb"


def link(app: Sphinx, page: str, template: str, context: Any, doctree: nodes.document) -> None:
    """Below the title of such a page, a link to its notebook; the home page is no lesson."""
    if doctree and page != "index" and runs_code(Path(app.env.doc2path(page))):
        url = context["pathto"](name_of(page), resource=True)
        context["body"] = context["body"].replace("</h1>", "</h1>\n" + LINK.format(url=url), 1)


def write(app: Sphinx, error: Exception | None) -> None:
    """The notebooks, without outputs: a reader runs them."""
    if error or app.builder.format != "html":
        return
    for page in app.env.found_docs:
        source = Path(app.env.doc2path(page))
        if runs_code(source):
            target = Path(app.outdir) / name_of(page)
            target.parent.mkdir(parents=True, exist_ok=True)
            jupytext.write(notebook(source.read_text(encoding="utf-8")), target)


def notebook(page: str) -> Any:
    """A page's cells without its front matter; solutions are collapsed, and chapters link to notebooks."""
    _, _, body = page.removeprefix("---\n").partition("\n---\n")
    cells = jupytext.reads(CHAPTER.sub(r"](\1.ipynb)", body), fmt="md:myst")
    cells.metadata = {"kernelspec": KERNEL}
    for cell in cells.cells:
        if "hide-input" in cell.metadata.get("tags", ()):
            cell.metadata["jupyter"] = {"source_hidden": True}
    return cells


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("html-page-context", link)
    app.connect("build-finished", write)
    return {"parallel_read_safe": True, "parallel_write_safe": True}

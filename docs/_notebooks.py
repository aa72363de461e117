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
MARKDOWN = re.compile(r"(?<![\w!}])\[([^][]+)\]\(([\w./#=:?-]+)\)")
HTML = re.compile(r'<a\s+href="([^"]*)"[^>]*>(.*?)</a>', re.DOTALL)
CHAPTER = re.compile(r"\d\d-[\w-]+")
"""The address of a chapter of the course, for another; their notebooks lie beside each other too."""
LINK = '<p class="notebook"><a href="{url}" download>Download this page as a notebook</a></p>'


def runs_code(source: Path) -> bool:
    """Whether the front matter asks MyST-NB to execute the page."""
    text = source.read_text(encoding="utf-8") if source.suffix == ".md" else ""
    return text.startswith("---\n") and "file_format: mystnb" in text.split("\n---", 1)[0]


def is_lesson(app: Sphinx, page: str) -> bool:
    """Whether the page is offered as a notebook; the home page runs code and is no lesson."""
    return page != "index" and runs_code(Path(app.env.doc2path(page)))


def name_of(page: str) -> str:
    return f"{FOLDER}/{page}.ipynb"


def link(app: Sphinx, page: str, template: str, context: Any, doctree: nodes.document) -> None:
    """Below the title of a lesson, a link to its notebook."""
    if doctree and is_lesson(app, page):
        url = context["pathto"](name_of(page), resource=True)
        context["body"] = context["body"].replace("</h1>", "</h1>\n" + LINK.format(url=url), 1)


def write(app: Sphinx, error: Exception | None) -> None:
    """The notebooks, without outputs: a reader runs them."""
    if error or app.builder.format != "html":
        return
    for page in app.env.found_docs:
        if is_lesson(app, page):
            source = Path(app.env.doc2path(page)).read_text(encoding="utf-8")
            target = Path(app.outdir) / name_of(page)
            target.parent.mkdir(parents=True, exist_ok=True)
            jupytext.write(notebook(source), target)


def notebook(page: str) -> Any:
    """A page's cells without its front matter; solutions are collapsed, and links lead out of a single file."""
    _, _, body = page.removeprefix("---\n").partition("\n---\n")
    cells = jupytext.reads(body, fmt="md:myst")
    cells.metadata = {"kernelspec": KERNEL}
    for cell in cells.cells:
        if cell.cell_type != "code":
            text = MARKDOWN.sub(lambda link: kept(link[0], link[1], link[2]), cell.source)
            cell.source = HTML.sub(lambda link: kept(link[0], link[2], link[1]), text)
        elif "hide-input" in cell.metadata.get("tags", ()):
            cell.metadata["jupyter"] = {"source_hidden": True}
    return cells


def kept(link: str, text: str, address: str) -> str:
    """A link of a page, for its notebook: without the site beside it, only the words of most are left."""
    if CHAPTER.fullmatch(address):
        return f"[{text}]({address}.ipynb)"
    return link if re.match(r"https?://", address) else text


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("html-page-context", link)
    app.connect("build-finished", write)
    return {"parallel_read_safe": True, "parallel_write_safe": True}

"""The playground in the documentation: written by the build from the package's files, and put into a page."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from tpo.reports import write_playground
from tpo.reports.html.page import presets

FILE = "_static/playground.html"
FRAME = """\
<p><a href="{static}playground.html">Open it on a page of its own</a>, where it has two columns.</p>
<iframe class="playground" title="Playground" src="{static}playground.html?embed" width="100%" height="2400"
  style="border: 0"></iframe>
<script src="{static}playground-frame.js"></script>
"""


class Playground(SphinxDirective):
    """The playground in a frame; `playground-frame.js` gives it the page's address, theme and height."""

    def run(self) -> list[nodes.Node]:
        static = "../" * self.env.docname.count("/") + "_static/"
        return [nodes.raw("", FRAME.format(static=static), format="html")]


class Presets(SphinxDirective):
    """A table of the presets: the name in the address, the topic, and what each shows."""

    HEAD: ClassVar = ["| Preset | Topic | Shows |", "|---|---|---|"]

    def run(self) -> list[nodes.Node]:
        found = nodes.container()
        self.state.nested_parse(StringList([*self.HEAD, *map(row, presets())]), 0, found)
        return found.children


def row(preset: dict[str, str]) -> str:
    """A row of the table, in Markdown; its link goes to the playground above it."""
    name = preset["name"]
    return f'| <a href="#preset={name}"><code>{name}</code></a> | {preset["topic"]} | {preset["shows"]} |'


def write(app: Sphinx, error: Exception | None) -> None:
    """The playground, one file."""
    if error is None and app.builder.format == "html":
        write_playground(Path(app.outdir) / FILE)


def setup(app: Sphinx) -> dict[str, bool | str]:
    app.add_directive("playground", Playground)
    app.add_directive("playground-presets", Presets)
    app.connect("build-finished", write)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}

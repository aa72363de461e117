"""Equations drawn by KaTeX in the reader's browser, from the files in `_static/katex`; nothing is fetched."""

from __future__ import annotations

import html
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.math import get_node_equation_number

SCRIPTS = ("katex/katex.min.js", "equations.js")
STYLES = ("katex/katex.min.css",)


def inline(translator: Any, node: nodes.math) -> None:
    translator.body.append(f'<span class="math">{html.escape(node.astext())}</span>')
    raise nodes.SkipNode


def block(translator: Any, node: nodes.math_block) -> None:
    """A display equation, with its number where it has a label."""
    translator.body.append(f'<div class="math">{html.escape(tex(translator, node))}</div>\n')
    raise nodes.SkipNode


def tex(translator: Any, node: nodes.math_block) -> str:
    """The equation's TeX; several lines are aligned at their `&`."""
    text = node.astext().strip()
    if "\\\\" in text and "\\begin" not in text:
        text = f"\\begin{{aligned}}{text}\\end{{aligned}}"
    if node["number"]:
        text += f"\\tag{{{get_node_equation_number(translator, node)}}}"
    return text


def load(app: Sphinx, page: str, template: str, context: Any, doctree: nodes.document) -> None:
    """KaTeX is loaded by the pages that have an equation."""
    if doctree and any(doctree.findall(lambda n: isinstance(n, (nodes.math, nodes.math_block)))):
        for name in STYLES:
            app.add_css_file(name)
        for name in SCRIPTS:
            app.add_js_file(name, loading_method="defer")


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_html_math_renderer("katex", (inline, None), (block, None))
    app.connect("html-page-context", load)
    return {"parallel_read_safe": True, "parallel_write_safe": True}

"""Sphinx: hand-written pages, and a page per objective made from its docstring."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import _objectives

from tpo.version import __version__

project = "tpo"
author = "The tpo authors"
copyright = "2026, The tpo authors"
version = release = __version__
extensions = ["sphinx.ext.autodoc", "myst_parser", "_mathml", "_objectives"]
html_theme = "furo"
html_title = "tpo"
html_math_renderer = "mathml"
html_copy_source = False
html_static_path = ["_static"]
html_css_files = ["tpo.css"]
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_preserve_defaults = True
exclude_patterns = ["_build", "evidence"]
myst_heading_anchors = 2
default_role = "code"

_objectives.write_pages(Path(__file__).parent / "reference/objectives")

"""Sphinx: hand-written pages, code that the build runs, and a page per objective made from its docstring."""

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import _objectives

from tpo.version import __version__

HERE = Path(__file__).parent
project = "tpo"
author = "The tpo authors"
copyright = "2026, The tpo authors"
version = release = __version__
extensions = [
    "sphinx.ext.autodoc",
    "myst_nb",
    "sphinx_copybutton",
    "sphinx_design",
    "_cli",
    "_katex",
    "_notebooks",
    "_objectives",
    "_playground",
]
html_theme = "furo"
html_title = "tpo"
html_math_renderer = "katex"
html_copy_source = False
html_static_path = ["_static"]
html_css_files = ["tpo.css"]
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_preserve_defaults = True
exclude_patterns = ["_build", "evidence", "**/.ipynb_checkpoints"]
default_role = "code"

myst_heading_anchors = 2
myst_enable_extensions = ["amsmath", "colon_fence", "deflist", "dollarmath"]
nb_execution_mode = "cache"
nb_execution_cache_path = str(HERE.parent / ".cache/notebooks")
nb_execution_timeout = 120
nb_execution_raise_on_error = True
nb_execution_show_tb = True
nb_merge_streams = True
copybutton_exclude = ".linenos, .gp, .go"
# The pages' code runs quietly and on the processor, with the compiled code of earlier builds.
os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(HERE.parent / ".cache/jax"))
os.environ["PYDEVD_DISABLE_FILE_VALIDATION"] = "1"

_objectives.write_pages(HERE / "reference/objectives")

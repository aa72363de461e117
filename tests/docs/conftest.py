"""The built documentation, and a browser to read it in."""

from pathlib import Path

import pytest

from support import ROOT
from support.browser import browser, tab  # noqa: F401 - fixtures


@pytest.fixture(scope="session")
def site() -> Path:
    built = ROOT / "docs/_build/html"
    if not (built / "index.html").exists():
        pytest.skip("the documentation is not built: make docs")
    return built

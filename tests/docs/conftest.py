"""The built documentation."""

from pathlib import Path

import pytest

from support import ROOT


def sources() -> list[Path]:
    """The pages as they are written."""
    written = [*(ROOT / "docs").rglob("*.md"), *(ROOT / "docs").rglob("*.rst")]
    return [page for page in written if "_build" not in page.parts]


@pytest.fixture(scope="session")
def site() -> Path:
    built = ROOT / "docs/_build/html"
    if not (built / "index.html").exists():
        pytest.skip("the documentation is not built: make docs")
    newest = max(sources(), key=lambda page: page.stat().st_mtime)
    if newest.stat().st_mtime > (built / "searchindex.js").stat().st_mtime:
        pytest.skip(f"the documentation is older than {newest.name}: make docs")
    return built

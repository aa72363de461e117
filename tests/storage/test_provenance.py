"""The commit of a result is that of tpo's own checkout, never that of a repository around an installed copy."""

import shutil
import subprocess
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import pytest

from support import ROOT
from tpo.storage import provenance

GIT = ("git", "-c", "user.name=a", "-c", "user.email=a@example.org")


def _git(folder: Path, *command: str) -> str:
    done = subprocess.run([*GIT, *command], cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def _loaded(path: Path) -> Any:
    """A copy of the module, as it is when imported from this path."""
    path.parent.mkdir(parents=True)
    shutil.copy(provenance.__file__, path)
    spec = spec_from_file_location("copied_provenance", path)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("place", "tracked", "is_checkout"),
    [
        (provenance.TRACKED, True, True),
        (provenance.TRACKED, False, False),
        (".venv/lib/python3/site-packages/tpo/storage/provenance.py", False, False),
        ("vendored/src/tpo/storage/provenance.py", True, False),
    ],
)
def test_only_the_commit_of_a_checkout_of_tpo(
    place: str, tracked: bool, is_checkout: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TPO_COMMIT", raising=False)
    _git(tmp_path, "init", "-q")
    (tmp_path / "own.txt").write_text("of the user")
    module = _loaded(tmp_path / place)
    monkeypatch.setattr(module, "version", lambda _: "1.2.3")
    _git(tmp_path, "add", *(["-A"] if tracked else ["own.txt"]))
    _git(tmp_path, "commit", "-qm", "first")
    expected = _git(tmp_path, "rev-parse", "--short=12", "HEAD") if is_checkout else "1.2.3 (wheel)"
    assert module.commit() == expected
    module.commit.cache_clear()
    monkeypatch.setenv("TPO_COMMIT", "given")
    assert module.commit() == "given"


def test_this_repository_has_the_file_where_it_is_looked_for() -> None:
    assert (ROOT / provenance.TRACKED).samefile(provenance.__file__)

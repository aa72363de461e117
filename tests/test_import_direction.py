"""The direction of imports, by import-linter: it holds, and a wrong import of each kind fails it."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("importlinter")

ROOT = Path(__file__).parent.parent


def check(folder: Path) -> subprocess.CompletedProcess[str]:
    tool = Path(sys.executable).with_name("lint-imports")
    paths = os.pathsep.join([str(folder / "src"), str(ROOT / "tools")])
    return subprocess.run(
        [str(tool), "--no-cache"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("copy")
    ignored = shutil.ignore_patterns("__pycache__", "*.js", "*.css", "*.csv", "*.yaml")
    shutil.copytree(ROOT / "src/tpo", folder / "src/tpo", ignore=ignored)
    shutil.copy(ROOT / "pyproject.toml", folder)
    return folder


def test_imports_point_one_way(copy: Path) -> None:
    done = check(copy)
    assert done.returncode == 0, done.stdout


PLANTED = {
    "at the top": ("storage", "from tpo.groups import Groups"),
    "in a function": ("lab", "def f():\n    from tpo.reports import write"),
    "for types only": (
        "llm",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from tpo.lab.training import Cell",
    ),
    "of the lab into a report": ("reports", "from tpo.lab.studies import get_study"),
    "out of the core": ("objectives", "from tpo.storage.files import write_text"),
    "by a name in a string": (
        "lab",
        "from importlib import import_module\nimport_module('tpo.reports.summary')",
    ),
    "by an f-string": (
        "llm",
        "import importlib\nx = 'lab'\nimportlib.import_module(f'tpo.{x}.tasks')",
    ),
    "by any name": (
        "reports",
        "import importlib\ndef f(x):\n    return importlib.import_module(x)",
    ),
    "as a program": ("lab", "COMMAND = ['python', '-m', 'tpo.llm.rewards.subprocess_worker']"),
}


@pytest.fixture(scope="module")
def shown(copy: Path) -> str:
    """What the check says of the copy with a wrong import of each kind, each in a module of its own."""
    planted = [
        copy / "src/tpo" / package / f"planted{number}.py"
        for number, (package, _) in enumerate(PLANTED.values())
    ]
    for path, (_, code) in zip(planted, PLANTED.values(), strict=True):
        path.write_text(code + "\n")
    try:
        done = check(copy)
    finally:
        for path in planted:
            path.unlink()
    assert done.returncode == 1, done.stdout
    return done.stdout


@pytest.mark.parametrize("kind", PLANTED)
def test_a_wrong_import_fails(kind: str, shown: str) -> None:
    package, _ = PLANTED[kind]
    assert re.search(rf"tpo\.{package}\.planted{[*PLANTED].index(kind)}\b", shown), shown

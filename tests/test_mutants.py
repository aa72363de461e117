"""The tables of mutants: each still fits the sources, and the tool tells a killed mutant from a survivor."""

import ast
import importlib.util
import json
import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest

from support import ROOT

TOOL = ROOT / "tools/mutants/run.py"


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("mutants", TOOL)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules["mutants"] = module  # its dataclass looks its own module up
    spec.loader.exec_module(module)
    return module


def test_every_mutant_fits_the_sources_and_names_tests_that_exist(tool: ModuleType) -> None:
    mutants = tool.declared()
    assert len({mutant.name for mutant in mutants}) == len(mutants) >= 60
    for mutant in mutants:
        faulty = mutant.applied((ROOT / "src/tpo" / mutant.file).read_text())
        ast.parse(faulty)
        assert mutant.tests, mutant.name
        for test in mutant.tests:
            path, _, name = test.partition("::")
            text = (ROOT / "tests" / path).read_text()
            assert f"def {name.partition('[')[0]}(" in text or not name, test


def test_a_mutant_that_no_longer_fits_is_named(tool: ModuleType) -> None:
    mutant = tool.Mutant("t", "A fault", "x.py", "a = 1", "a = 2", ("test_x.py",))
    assert mutant.applied("a = 1\n") == "a = 2\n"
    for text, times in (("b = 1", 0), ("a = 1; a = 1", 2)):
        with pytest.raises(ValueError, match=f"'A fault': its source text occurs {times} times"):
            mutant.applied(text)


def project(folder: Path, table: str) -> Path:
    """A package with one function and one test, and a table of mutants of it."""
    for name, text in {
        "src/tpo/__init__.py": "",
        "src/tpo/small.py": "def larger(a, b):\n    return a if a > b else b\n",
        "tests/test_small.py": (
            "from tpo.small import larger\n\ndef test_larger():\n    assert larger(1, 2) == 2\n"
        ),
        "tables/small.toml": table,
    }.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


FAULT = """
[{name}]
file = "small.py"
source = "a > b"
becomes = "{becomes}"
tests = ["test_small.py"]
"""


def test_a_survivor_without_a_reason_fails(
    tool: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = FAULT.format(name="smaller", becomes="a < b") + FAULT.format(
        name="equal", becomes="a >= b"
    )
    folder = project(tmp_path, table)
    out = folder / "kept/mutants.json"
    assert tool.main(["--workers", "1", "--out", str(out)], folder, folder / "tables") == 1
    assert json.loads(out.read_text())["mutants"] == {
        "small small.py: smaller": "killed",
        "small small.py: equal": "survived",
    }
    *lines, total = capsys.readouterr().out.splitlines()
    assert [(line.split()[0], line.split()[-1]) for line in lines] == [
        ("killed", "smaller"),
        ("survived", "equal"),
    ]
    assert total == "2 mutants: 1 killed, 0 survive as stated, 1 wrong"
    assert "a > b" in (folder / "src/tpo/small.py").read_text()


def test_a_reason_must_hold_and_tests_must_run(tool: ModuleType) -> None:
    plain = tool.Mutant("t", "A fault", "x.py", "a", "b", ("test_x.py",))
    stated = replace(plain, survives="nobody can tell")
    passed, failed, interrupted = 0, 1, 2
    assert tool.outcome(plain, failed) == "killed"
    assert tool.outcome(plain, passed) == "survived"
    assert tool.outcome(stated, passed) == "as stated"
    assert tool.outcome(stated, failed) == "killed, but stated to survive"
    assert tool.outcome(stated, interrupted) == "tests did not run"

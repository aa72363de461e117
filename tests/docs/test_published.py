"""Pages followed to the letter: what a reader copies and types from them runs, and gives what they say."""

import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from support import ROOT

GUIDES = ROOT / "docs/guides"
FENCE = re.compile(r"^```(\S[^\n]*)\n(.*?)^```$", flags=re.DOTALL | re.MULTILINE)


def blocks(page: str) -> Iterator[tuple[str, str]]:
    """The language and the text of each fenced block."""
    yield from FENCE.findall((GUIDES / page).read_text(encoding="utf-8"))


def files(page: str) -> dict[str, str]:
    """The files that a reader writes: blocks of Python with a name as their caption."""
    found = {}
    for kind, text in blocks(page):
        name = re.match(r":caption: (\S+\.py)\n\n", text)
        if kind == "{code-block} python" and name:
            found[name[1]] = text[name.end() :]
    return found


def commands(page: str) -> dict[str, str]:
    """What a reader types, in order, and what the page says that it prints."""
    consoles = "".join(text for kind, text in blocks(page) if kind == "console")
    typed = re.compile(r"^\$ (.*(?:(?<=\\)\n.*)*)\n((?:(?!\$ ).*\n)*)", flags=re.MULTILINE)
    return dict(typed.findall(consoles))


def installs(command: str) -> bool:
    """Whether a command makes the environment, which the tests have already."""
    return bool(re.match(r"python3 -m venv |\. \S+/activate$|pip install ", command))


def follow(page: str, folder: Path, typed: tuple[str, ...] = ("",)) -> str:
    """Write the page's files into a folder, run its commands there, and return what they print.

    typed: how the commands to run start. Output that the page shows must be what a command prints.
    """
    for name, text in files(page).items():
        (folder / name).write_text(text, encoding="utf-8")
    shims = folder / "bin"
    shims.mkdir()
    for name, call in {"python": "", "tpo": " -m tpo"}.items():
        shim = shims / name
        shim.write_text(f'#!/bin/sh\nexec "{sys.executable}"{call} "$@"\n')
        shim.chmod(0o755)
    environment = os.environ | {
        "PATH": f"{shims}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT / "src"),
    }
    printed = ""
    for command, published in commands(page).items():
        if command.startswith(typed) and not installs(command):
            done = subprocess.run(
                command, shell=True, cwd=folder, env=environment, capture_output=True, text=True
            )
            assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
            assert published in ("", done.stdout)
            printed += done.stdout
    return printed


@pytest.mark.parametrize("page", ["own-reward.md", "own-objective.md"])
def test_the_extras_that_a_page_installs_exist(page: str) -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    named = [
        name
        for command in commands(page)
        for found in re.findall(r"'\.\[(.*?)\]'", command)
        for name in found.split(",")
    ]
    assert named
    assert set(named) <= set(extras["optional-dependencies"])


def test_own_reward_trains_a_model_through_trl(tmp_path: Path) -> None:
    pytest.importorskip("trl")
    printed = follow("own-reward.md", tmp_path)
    found = re.search(r"reward: (\S+) in the first batch, (\S+) in the last", printed)
    assert found
    first, last = map(float, found.groups())
    assert first < 0.5
    assert last > 0.85


def test_the_arithmetic_of_a_7b_run_gives_the_table_beside_it(tmp_path: Path) -> None:
    printed = follow("plan-7b.md", tmp_path, ("python plan.py",))
    assert "57.4 GB" in printed


def test_own_objective_is_a_row_of_the_league(tmp_path: Path) -> None:
    pytest.importorskip("jax")
    printed = follow(
        "own-objective.md",
        tmp_path,
        ("python check.py", "tpo run --methods", "tpo report results/league"),
    )
    rows = re.findall(r"^\W*(Lean|TPO)\W+([\d.]+)", printed, flags=re.MULTILINE)
    errors = {name.lower(): float(percent) / 100 for name, percent in rows}
    assert errors.keys() == {"lean", "tpo"}
    assert errors["tpo"] < 0.3, "a random policy is wrong in three of four answers"
    report = (tmp_path / "results/league/report.html").read_text(encoding="utf-8")
    assert "Lean" in report


def test_own_task_and_own_study_run_from_the_command_line_and_in_python(tmp_path: Path) -> None:
    pytest.importorskip("jax")
    printed = follow("own-task.md", tmp_path)
    typed, _, rest = printed.partition("report.md\n")
    rows = re.findall(r"^\W*(TPO|DG|PG)\W+([\d.]+)", typed, flags=re.MULTILINE)
    assert {name.lower() for name, _ in rows} == {"tpo", "dg", "pg"}
    assert max(float(percent) for _, percent in rows) < 20, "guessing is wrong half of the time"
    in_python = re.match(r"(0\.\d+)\n.*\(run\)\nmethod .*\nTPO ", rest)
    assert in_python
    assert float(in_python[1]) < 0.4, "guessing is wrong half of the time"
    study = rest[in_python.end() :].partition("report.md\n")[2]
    opened = re.findall(r"^([23])  (TPO|TPO, eta 0.5|GRPO)  ", study, flags=re.MULTILINE)
    assert len(set(opened)) == 6
    report = (tmp_path / "results/eta/report.html").read_text(encoding="utf-8")
    assert "tpo run eta_study.py:ETA_SHORT --scale smoke" in report

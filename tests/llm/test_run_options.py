"""An option of language-model runs is declared in one place; everything else is made of its field."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from support import ROOT
from tpo.llm.comparison.options import ComparisonOptions
from tpo.llm.run_options import REPORTERS, TRL, VERL
from tpo.llm.runs.recipe import PRESETS, Recipe
from tpo.options import declared, default_text, help_text, sections, values_of

MARKS = {
    "kind",
    "help",
    "unset",
    "trl",
    "tasks",
    "small",
    "per_method",
    "as_method",
    "may_change",
    "private",
}

NEW = """
    patience_of_tests: float = option(0.25, FRACTION, "an option that a test adds")


@dataclass(frozen=True)
class GroupOptions:"""
"""What is added at the end of ObjectiveOptions, which every trainer takes."""

USE = """
import sys
from importlib.util import find_spec
from unittest.mock import MagicMock

if find_spec("omegaconf") is None:
    sys.modules["omegaconf"] = MagicMock()
from tpo.cli import main, parser
from tpo.cli.flags.yaml_file import read_yaml
from tpo.llm.runs.recipe import recipe
from tpo.llm.verl.settings import Settings

given = parser().parse_args(["train", "--patience-of-tests", "0.5"])
print("flag", given.patience_of_tests)
print("wrong flag", main(["train", "--patience-of-tests", "2"]))
made = recipe({"model": "m", "task": "toy:sort", "cpu": True}, read_yaml("options.yaml"))
print("file", made.patience_of_tests)
print("verl", Settings(patience_of_tests=1.0).patience_of_tests)
print("TRL", made.config().patience_of_tests)
sys.path.insert(0, sys.argv[1])
import _cli
for name in ("train", "trl", "verl"):
    (row,) = [row for _, rows in _cli.tables(name) for row in rows if "tests" in row[0]]
    print(*row, sep=" | ")
"""


def test_an_option_that_is_added_once_is_everywhere(tmp_path: Path) -> None:
    pytest.importorskip("trl")
    pytest.importorskip("sphinx")
    shutil.copytree(ROOT / "src", tmp_path / "src", ignore=shutil.ignore_patterns("__pycache__"))
    file = tmp_path / "src/tpo/llm/run_options.py"
    text = file.read_text().replace("    FINITE,\n", "    FINITE,\n    FRACTION,\n")
    before = "\n\n@dataclass(frozen=True)\nclass GroupOptions:"
    assert text.count(before) == 1
    file.write_text(text.replace(before, NEW))
    (tmp_path / "options.yaml").write_text("patience_of_tests: 75e-2\n")
    done = subprocess.run(
        [sys.executable, "-c", USE, str(ROOT / "docs")],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path / "src")},
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "flag 0.5",
        "wrong flag 2",
        "file 0.75",
        "verl 1.0",
        "TRL 0.75",
        "--patience-of-tests | 0.25 | an option that a test adds",
        "patience_of_tests | 0.25 | an option that a test adds",
        "+trainer.v1.tpo.patience_of_tests | 0.25 | an option that a test adds",
    ]
    assert "--patience-of-tests is '2', expected a number from 0 to 1" in done.stderr


def test_every_option_has_a_help_text_and_marks_that_are_known() -> None:
    for options in (Recipe, ComparisonOptions, *TRL, *VERL):
        for name, f in declared(options).items():
            assert f.metadata["help"], name
            assert f.metadata.keys() <= MARKS, name


def test_texts_of_defaults() -> None:
    of = declared(Recipe)
    found = {name: default_text(of[name]) for name in ("learning_rate", "steps", "vllm", "eta")}
    assert found == {
        "learning_rate": "1e-5",
        "steps": "100",
        "vllm": "False",
        "eta": "the objective's own",
    }
    assert help_text(of["steps"]) == "optimiser steps (100)"
    assert help_text(of["vllm"]) == "sample with vLLM"  # a switch says nothing of False
    assert default_text(of["model"]) == default_text(of["trl"]) == ""


def test_sections_hold_every_option_once_in_the_order_of_the_constructor() -> None:
    listed = [f.name for _, options in sections(Recipe) for f in options]
    assert listed == list(declared(Recipe))
    assert listed[:3] == ["model", "task", "objective"]
    assert list(dict(sections(Recipe)))[:2] == ["The model and the task", "The objective"]


def test_presets_and_shared_values() -> None:
    assert PRESETS == {"paper": {}, "small": {"prompts": 4, "group_size": 8, "max_tokens": 64}}
    made = Recipe("m", "toy:sort", eta=0.5)
    assert values_of(made, VERL[0])["eta"] == 0.5
    assert "model" not in values_of(made, VERL[0])


def test_loggers_are_those_of_transformers() -> None:
    pytest.importorskip("torch")
    from transformers.integrations.integration_utils import INTEGRATION_TO_CALLBACK

    assert {*REPORTERS} == {*INTEGRATION_TO_CALLBACK}

"""The example that fits a model to a file of scored answers: what it refuses, and where it says the fault is."""

import re
import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support import ROOT

GOOD = '{"prompt": "p", "answers": ["a", "b"], "scores": [1, 0.5]}'


@pytest.fixture(scope="module")
def rows() -> Callable[[Path], Any]:
    return runpy.run_path(str(ROOT / "examples/scored_answers.py"))["rows"]


def test_empty_lines_are_passed_over(rows: Any, tmp_path: Path) -> None:
    path = tmp_path / "scored.jsonl"
    path.write_text(f"{GOOD}\n\n{GOOD}\n")
    assert [row["scores"] for row in rows(path)] == [[1, 0.5], [1, 0.5]]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("prompt: p", "is not valid JSON"),
        ("[1, 2]", "answers, prompt, scores missing"),
        ('{"prompt": "p", "answers": ["a", "b"]}', "scores missing"),
        (GOOD.replace('"p"', '""'), "prompt is '', expected a text"),
        (GOOD.replace('"a"', "1"), "answers are [1, 'b'], expected a list of texts"),
        (GOOD.replace("0.5", "null"), "scores are [1, None], expected a list of finite numbers"),
        (GOOD.replace("0.5", "NaN"), "scores are [1, nan], expected a list of finite numbers"),
        (GOOD.replace(", 0.5", ""), "2 answers and 1 scores, expected as many scores as answers"),
        ('{"prompt": "p", "answers": ["a"], "scores": [1]}', "1 answers, expected two or more"),
    ],
)
def test_a_wrong_line_is_named(rows: Any, tmp_path: Path, line: str, message: str) -> None:
    path = tmp_path / "scored.jsonl"
    path.write_text(f"{GOOD}\n{line}\n")
    with pytest.raises(ValueError, match="line 2.*" + re.escape(message)):
        rows(path)


def test_a_file_without_a_line_is_refused(rows: Any, tmp_path: Path) -> None:
    path = tmp_path / "scored.jsonl"
    path.write_text("\n")
    with pytest.raises(ValueError, match="is empty, expected"):
        rows(path)

"""Datasets of reasoning-gym as scorers: their scores, and answers that hold code."""

import inspect
import re
import sys
from pathlib import Path

import pytest

from tpo.llm.rewards.gym_scorer import FORMULAS, LITERALS, is_formula
from tpo.llm.rewards.scorers import load

gym = pytest.importorskip("reasoning_gym")

OWN_TEXT = ("basic_arithmetic", "bitwise_arithmetic", "codeio", "gsm_symbolic", "number_sorting")
"""They evaluate what they wrote themselves."""
OWN_PARSER = ("propositional_logic",)
"""Its `parse_expr` is its own."""


@pytest.mark.parametrize("name", [*LITERALS, *FORMULAS])
def test_an_answer_that_holds_code_is_wrong_and_not_executed(name: str, tmp_path: Path) -> None:
    options = {"seed": 1, "size": 3}
    score = load({"name": name, "dataset": name, "options": options, "extract": "text"})
    data, mark = gym.create_dataset(name, **options), tmp_path / "executed"
    wrong = data.score_answer("?", data[0])
    for code in (
        f"open({str(mark)!r}, 'w')",
        f"(1).__class__.__base__.__subclasses__(), open({str(mark)!r}, 'w')",
        f"[open(chr(47).join({str(mark).split('/')}), chr(119))]",
    ):
        assert score(code, 0) == wrong
    assert not mark.exists()
    assert [score(entry["answer"], i) for i, entry in enumerate(data)] == [1.0] * 3


def test_a_list_has_the_credit_that_the_dataset_gives() -> None:
    options = {"seed": 1, "size": 1}
    score = load({"name": "n", "dataset": "n_queens", "options": options})
    (entry,) = gym.create_dataset("n_queens", **options)
    rows = [line.split() for line in entry["answer"].split("\n")]
    assert score(f"<answer>{rows}</answer>", 0) == 0.5


@pytest.mark.parametrize(
    ("text", "right", "expected"),
    [
        ("3*(4 + 5.5)/-.5e-3 - 2**x1", "", True),
        ("sin(2*x)**2/2 + C", "", True),
        ("5! + 2^3, 1", "", True),
        ("alpha*x", "3*alpha", True),
        ("alpha*x", "3*x", False),
        ("open(x)", "", False),
        ("eval(x)", "", False),
        ("x.real", "", False),
        ("1.real", "", False),
        ("x__class__", "", False),
        ("x['a']", "", False),
        ("[x for x in y]", "", False),
        ("1 if x else 2", "", False),
        ("x = 3", "", False),
        ("a" * 40 + "?" * 40, "", False),
    ],
)
def test_a_formula_is_numbers_operators_and_known_names(
    text: str, right: str, expected: bool
) -> None:
    assert is_formula(text, right) is expected


def test_every_dataset_that_evaluates_text_is_known() -> None:
    from reasoning_gym.factory import DATASETS

    evaluates = re.compile(r"(?<![.\w])(eval|exec|sympify|(sp\.|sympy\.)?parse_expr)\(")
    found = {
        name
        for name, (dataset, _) in DATASETS.items()
        if evaluates.search(inspect.getsource(sys.modules[dataset.__module__]))
    }
    generators = {"gsm_symbolic"}  # in modules of its own
    assert found | generators == {*LITERALS, *FORMULAS, *OWN_TEXT, *OWN_PARSER}

"""A dataset of reasoning-gym as a scorer: its own rule, which executes nothing that a completion holds.

Deviates from reasoning-gym 0.1.25, where nine rules call `eval` or sympy's `parse_expr` on the answer: what is
neither a literal nor a formula gets the score of a wrong answer.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Callable, Mapping
from typing import Any

LITERALS = ("binary_matrix", "n_queens", "spiral_matrix", "string_insertion")
"""Their rules call `eval` on an answer that should be a list."""
FORMULAS = (
    "countdown", "intermediate_integration", "polynomial_multiplication", "puzzle24",
    "simple_integration",
)  # fmt: skip
"""Their rules call `parse_expr` on an answer that should be a formula."""
FUNCTIONS = (
    "sin", "cos", "tan", "cot", "sec", "csc", "asin", "acos", "atan", "sinh", "cosh", "tanh", "exp", "log",
    "ln", "sqrt", "pi", "Abs", "Integral",
)  # fmt: skip
"""The words of a formula, besides names of one letter and those of the right answer."""

_NUMBER = r"(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?(?![\w.])"
_WORD = re.compile(r"[A-Za-z]\w*(?!\w)")
_FORMULA = re.compile(rf"(?:{_NUMBER}|{_WORD.pattern}|[-+*/^%!,()\s])*")


def gym_scorer(
    dataset: str, options: Mapping[str, Any], extract: Callable[[str], str | None]
) -> Callable[[str, int], float]:
    """Extracts the answer from a completion, and scores it by the dataset's rule for the row's index."""
    import reasoning_gym as gym

    data = gym.create_dataset(dataset, **options)
    if dataset in LITERALS:
        vars(sys.modules[type(data).__module__])["eval"] = ast.literal_eval

    def score(completion: str, index: int) -> float:
        entry, answer = data[index], extract(completion)
        if dataset in FORMULAS and answer is not None and not is_formula(answer, entry["answer"]):
            answer = ""
        return float(data.score_answer(answer, entry))

    return score


def is_formula(text: str, right: str) -> bool:
    """Whether a text is numbers, operators and names alone: no attribute, text, index or unknown function.

    `right` is the right answer, whose names are known.
    """
    known = {*FUNCTIONS, *_WORD.findall(right)}
    words = _WORD.findall(text)
    return _FORMULA.fullmatch(text) is not None and all(
        word in known or re.fullmatch(r"[A-Za-z]\d*", word) for word in words
    )

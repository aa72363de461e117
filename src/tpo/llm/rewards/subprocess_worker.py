"""The process behind `Scoring`: a row in JSON on a line of input, a score or an error on a line of output."""

from __future__ import annotations

import json
import math
import os
import sys
from typing import Any, TextIO

from tpo.llm.rewards.scorers import load


def main(scorer: str, questions: TextIO, answers: TextIO) -> None:
    """Answer until the input ends; the scorer is given a row's values by position, the completion first."""
    try:
        score = load(json.loads(scorer))
    except Exception as error:  # the scorer is the user's code: the parent says what went wrong
        _say(answers, {"error": f"{type(error).__name__}: {error}"})
        return
    _say(answers, {"ready": True})
    for line in questions:
        row = json.loads(line)
        try:
            _say(answers, _answer(score(row.pop("completion"), *row.values())))
        except Exception as error:  # as above; one bad completion must not cost the next its score
            _say(answers, {"kind": "raised", "error": f"{type(error).__name__}: {error}"})


def _answer(score: Any) -> dict[str, Any]:
    """The score, a finite number, or what came instead."""
    if score is None or not math.isfinite(score):
        return {"kind": "no finite number", "error": f"the scorer returned {score}"}
    return {"score": float(score)}


def _say(answers: TextIO, message: dict[str, Any]) -> None:
    answers.write(json.dumps(message) + "\n")
    answers.flush()


if __name__ == "__main__":
    channel = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what the scorer prints goes to stderr, not between the answers
    main(sys.argv[1], sys.stdin, channel)

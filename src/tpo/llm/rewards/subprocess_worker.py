"""The process behind `Scoring`: reads rows and writes their scores or errors, as lines of JSON."""

from __future__ import annotations

import json
import math
import os
import sys
from typing import Any, TextIO

from tpo.llm.rewards.scorers import load


def main(scorer: str, requests: TextIO, replies: TextIO) -> None:
    """Score rows until the input ends; the scorer is called with a row's values, the completion first."""
    try:
        score = load(json.loads(scorer))
    except Exception as error:  # the scorer is the user's code: the parent reports the error
        _write(replies, {"error": f"{type(error).__name__}: {error}"})
        return
    _write(replies, {"ready": True})
    for line in requests:
        row = json.loads(line)
        try:
            _write(replies, _reply(score(row.pop("completion"), *row.values())))
        except Exception as error:  # as above; the next completion is still scored
            _write(replies, {"kind": "raised", "error": f"{type(error).__name__}: {error}"})


def _reply(score: Any) -> dict[str, Any]:
    """The score as a reply; an error if it is not a finite number."""
    if score is None or not math.isfinite(score):
        return {"kind": "no finite number", "error": f"the scorer returned {score}"}
    return {"score": float(score)}


def _write(replies: TextIO, reply: dict[str, Any]) -> None:
    replies.write(json.dumps(reply) + "\n")
    replies.flush()


if __name__ == "__main__":
    channel = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what the scorer prints goes to stderr, not between the replies
    main(sys.argv[1], sys.stdin, channel)

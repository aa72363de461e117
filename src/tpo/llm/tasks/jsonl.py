"""A user's JSONL file: a prompt and an answer on each line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tpo.llm.rewards.scorers import NAMED
from tpo.llm.tasks.text_task import TextTask, datasets_of, messages


def jsonl_task(
    path: Path, scorer: str, hint: str, threshold: float | None, held_out: int
) -> TextTask:
    """The file's prompts, the last ones held out."""
    if scorer not in NAMED and ":" not in scorer:
        raise ValueError(
            f"unknown scorer {scorer!r}. Valid names: {', '.join(NAMED)}; or an import path module:function"
        )
    rows = read_jsonl(path, "prompt")
    if len(rows) < 2:
        raise ValueError(
            f"{path} holds {len(rows)} of at least 2 prompts: one to train on, and one held out"
        )
    if len(rows) <= held_out:
        raise ValueError(
            f"{path} has {len(rows)} prompts and held_out is {held_out}: "
            f"set held_out to at most {len(rows) - 1}"
        )
    train, test = [
        {
            "prompt": [
                messages(row["prompt"], hint) if isinstance(row["prompt"], str) else row["prompt"]
                for row in part
            ],
            "answer": [str(row["answer"]) for row in part],
        }
        for part in (rows[:-held_out], rows[-held_out:])
    ]
    return TextTask(path.name, *datasets_of(train, test), {"name": scorer}, ("answer",), threshold)


def read_jsonl(path: Path, question: str) -> list[dict[str, Any]]:
    """Its lines, each with a question, text or a list of messages, under that name, and an `answer`."""
    if not path.exists():
        raise FileNotFoundError(f"{path} does not exist: give the path of a JSONL file")
    try:
        lines = path.read_text(encoding="utf-8").split("\n")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is no UTF-8 text: {error}") from None
    return [
        _row(f"{path}, line {number}", line, question)
        for number, line in enumerate(lines, 1)
        if line.strip()
    ]


def _row(place: str, line: str, question: str) -> dict[str, Any]:
    try:
        row = json.loads(line)
    except json.JSONDecodeError as error:
        raise ValueError(f"{place} is no JSON: {error}") from None
    if not isinstance(row, dict):
        raise ValueError(f"{place} holds a {type(row).__name__}, expected an object")
    missing = [name for name in (question, "answer") if row.get(name) is None]
    if missing:
        keys = ", ".join(map(repr, row)) or "none"
        raise ValueError(
            f"{place} has no {' and no '.join(missing)}: its keys are {keys}, expected "
            f"{question!r} and 'answer'"
        )
    if not isinstance(row[question], (str, list)):
        raise ValueError(
            f"{place}: {question} is {row[question]!r}, expected text or a list of messages"
        )
    if isinstance(row[question], list):
        _check_messages(f"{place}: {question}", row[question])
    return row


def _check_messages(place: str, found: list[Any]) -> None:
    """A conversation is a list of objects, each with a role and its text."""
    expected = 'expected messages such as {"role": "user", "content": "..."}'
    if not found:
        raise ValueError(f"{place} is an empty list, {expected}")
    for number, message in enumerate(found, 1):
        if not isinstance(message, dict):
            raise ValueError(f"{place}: message {number} is {message!r}, {expected}")
        for key in ("role", "content"):
            if key not in message:
                keys = ", ".join(map(repr, message)) or "none"
                raise ValueError(
                    f"{place}: message {number} has no {key!r}, its keys are {keys}: {expected}"
                )
            if not isinstance(message[key], str):
                raise ValueError(
                    f"{place}: message {number}: {key} is {message[key]!r}, expected text"
                )

"""A user's JSONL file: a prompt and an answer on each line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tpo.llm.rewards.pool import Scoring
from tpo.llm.rewards.scorers import NAMED
from tpo.llm.tasks.options import TaskOptions
from tpo.llm.tasks.text_task import TextTask, datasets_of, messages


def jsonl_task(path: Path, options: TaskOptions) -> TextTask:
    """The prompts of the file; the held-out ones are the last. Rows of a mixture name their `task`."""
    rows = checked_rows(path, options)
    mixed = all("task" in row for row in rows)
    scorer, hint, held_out = options.scorer or "exact", options.hint or "", options.held_out
    train, test = [
        {
            "prompt": [
                messages(row["prompt"], hint) if isinstance(row["prompt"], str) else row["prompt"]
                for row in part
            ],
            "answer": [str(row["answer"]) for row in part],
            **({"task": [str(row["task"]) for row in part]} if mixed else {}),
        }
        for part in (rows[:-held_out], rows[-held_out:])
    ]
    return TextTask(
        path.name, *datasets_of(train, test), {"name": scorer}, ("answer",), options.threshold
    )


def checked_rows(path: Path, options: TaskOptions) -> list[dict[str, Any]]:
    """The rows of the file; too few of them, or an unknown scorer, is an error."""
    scorer, held_out = options.scorer or "exact", options.held_out
    if scorer not in NAMED and ":" not in scorer:
        raise ValueError(
            f"unknown scorer {scorer!r}. Valid names: {', '.join(NAMED)}; or an import path module:function"
        )
    rows = read_jsonl(path, "prompt", least=2)
    if len(rows) <= held_out:
        raise ValueError(
            f"{path} has {len(rows)} prompts and held_out is {held_out}: "
            f"set held_out to at most {len(rows) - 1}"
        )
    return rows


def check_scorer(scorer: str | None) -> None:
    """Load a scorer of one's own, module:function, in a process of its own."""
    if scorer and ":" in scorer:
        scoring = Scoring({"name": scorer}, workers=1)
        try:
            scoring.check()
        finally:
            scoring.close()


def read_jsonl(path: Path, question: str, least: int = 1) -> list[dict[str, Any]]:
    """The rows of a file, at least so many.

    Each has an `answer`, and a text or a list of messages under the key `question`.
    """
    if not path.is_file():
        reason = "is a folder" if path.exists() else "does not exist"
        raise FileNotFoundError(f"{path} {reason}: give the path of a JSONL file")
    try:
        lines = path.read_text(encoding="utf-8").split("\n")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not UTF-8 text: {error}") from None
    rows = [
        _row(f"{path}, line {number}", line, question)
        for number, line in enumerate(lines, 1)
        if line.strip()
    ]
    if len(rows) < least:
        raise ValueError(
            f"{path} holds {len(rows)} of at least {least} prompts: one to train on, and one held out"
            if least > 1
            else f"{path} holds no prompt: give a file with one on each line"
        )
    return rows


def _row(place: str, line: str, question: str) -> dict[str, Any]:
    """The row of a line; `place` names the line in errors."""
    try:
        row = json.loads(line)
    except (json.JSONDecodeError, RecursionError) as error:
        raise ValueError(f"{place} is not valid JSON: {error}") from None
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
    """An error unless this is a list of messages, each with a role and a text."""
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

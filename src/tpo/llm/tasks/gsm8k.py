"""GSM8K, from the hub, at a revision or not; or from a folder with train.jsonl and test.jsonl."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from tpo.llm.tasks.jsonl import read_jsonl
from tpo.llm.tasks.options import TaskOptions
from tpo.llm.tasks.text_task import TextTask, datasets_of, messages

HUB_NAME = "openai/gsm8k"
PARTS = ("train", "test")
STEP_BY_STEP = "Think step by step, then give the final answer as a number on the last line."


def rows_of_folder(name: str) -> list[list[dict[str, Any]]] | None:
    """The rows of train.jsonl and test.jsonl of `gsm8k:FOLDER`; None for the hub's."""
    at, _, folder = name.partition(":")
    if folder and "@" in at:
        raise ValueError(f"task is {name!r}: a folder has no revision, give gsm8k:{folder}")
    if not folder:
        return None
    return [read_jsonl(Path(folder) / f"{part}.jsonl", "question") for part in PARTS]


def gsm8k_task(name: str, options: TaskOptions) -> TextTask:
    """All of its training set; the held-out prompts are the first of its test set."""
    hint = STEP_BY_STEP if options.hint is None else options.hint
    parts: list[Any] | None = rows_of_folder(name)
    revision = None
    if parts is None:
        revision = name.partition("@")[2] or None
        parts = _from_hub(revision)
        revision = commit_of(parts[0]) or revision
    train, test = [
        {
            "prompt": [messages(row["question"], hint) for row in rows],
            "answer": [str(row["answer"]) for row in rows],
        }
        for rows in (list(parts[0]), list(parts[1])[: options.held_out])
    ]
    return TextTask("gsm8k", *datasets_of(train, test), {"name": "gsm8k"}, revision=revision)


def _from_hub(revision: str | None) -> list[Any]:
    from datasets import load_dataset

    try:
        return [load_dataset(HUB_NAME, "main", split=part, revision=revision) for part in PARTS]
    except (OSError, ValueError) as error:
        raise OSError(
            f"gsm8k cannot be read from the hub ({error}): give gsm8k:FOLDER, with train.jsonl and "
            "test.jsonl"
        ) from error


def commit_of(dataset: Any) -> str | None:
    """The commit of the hub that a dataset is of: `datasets` names its folder in the cache after it."""
    found = re.search(r"(?<![0-9a-f])[0-9a-f]{40}(?![0-9a-f])", str(dataset.cache_files))
    return found.group() if found else None

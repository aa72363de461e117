"""GSM8K, from the hub or from a folder with train.jsonl and test.jsonl."""

from __future__ import annotations

from pathlib import Path

from tpo.llm.tasks.jsonl import read_jsonl
from tpo.llm.tasks.options import TaskOptions
from tpo.llm.tasks.text_task import TextTask, datasets_of, messages

HUB_NAME = "openai/gsm8k"
STEP_BY_STEP = "Think step by step, then give the final answer as a number on the last line."


def gsm8k_task(name: str, options: TaskOptions) -> TextTask:
    """All of its training set; the held-out prompts are the first of its test set."""
    hint = STEP_BY_STEP if options.hint is None else options.hint
    folder = name.partition(":")[2]
    if folder:
        parts = [
            read_jsonl(Path(folder) / f"{part}.jsonl", "question") for part in ("train", "test")
        ]
    else:
        from datasets import load_dataset

        try:
            parts = [list(load_dataset(HUB_NAME, "main", split=part)) for part in ("train", "test")]
        except OSError as error:
            raise OSError(
                f"gsm8k cannot be read from the hub ({error}): give gsm8k:FOLDER, with train.jsonl and "
                "test.jsonl"
            ) from error
    train, test = [
        {
            "prompt": [messages(row["question"], hint) for row in rows],
            "answer": [str(row["answer"]) for row in rows],
        }
        for rows in (parts[0], parts[1][: options.held_out])
    ]
    return TextTask("gsm8k", *datasets_of(train, test), {"name": "gsm8k"})

"""Text tasks: prompts, the columns that the scorer takes, and the scorer.

A task is named by one string: `gsm8k`, `gsm8k@REVISION`, `gsm8k:FOLDER`, `gym:NAME` (any dataset of
reasoning-gym), `toy:NAME` (generated, for small models), or the path of a JSONL file with `prompt`
and `answer`.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from tpo.llm.tasks.gsm8k import gsm8k_task, rows_of_folder
from tpo.llm.tasks.gym import gym_dataset, gym_task
from tpo.llm.tasks.jsonl import check_scorer, checked_rows, jsonl_task
from tpo.llm.tasks.options import TaskOptions
from tpo.llm.tasks.text_task import TextTask
from tpo.llm.tasks.toys import questions, toy_task
from tpo.options import declared

OPTIONS = {
    kind: tuple(k for k, f in declared(TaskOptions).items() if kind in f.metadata.get("tasks", ()))
    for kind in ("gsm8k", "gym", "toy", "jsonl")
}
"""The options of a recipe that each kind of task takes, besides `held_out`, which all take."""


def kind(name: str) -> str | None:
    """gsm8k, gym, toy or jsonl; None if no task has such a name."""
    first, colon, _ = name.partition(":")
    if first.partition("@")[0] == "gsm8k":
        return "gsm8k"
    if colon and first in ("gym", "toy"):
        return first
    return "jsonl" if name.endswith((".jsonl", ".json")) else None


def task(name: str, options: Mapping[str, Any] | None = None, **more: Any) -> TextTask:
    """The task of that name; a prompt is a conversation that ends with the question as a user message.

    `options` are those of the reasoning-gym dataset or of the toy; `more` are other fields of `TaskOptions`,
    such as `held_out=50`.
    """
    chosen = TaskOptions(**{"task_options": dict(options or {}), **more})
    _check_kind(name)
    if kind(name) == "gsm8k":
        return gsm8k_task(name, chosen)
    if kind(name) == "gym":
        return gym_task(name, chosen)
    if kind(name) == "toy":
        return toy_task(name, chosen)
    return jsonl_task(Path(name), chosen)


def check(name: str, **options: Any) -> None:
    """Raise what is wrong with a task, before `datasets` and torch are imported; the hub is not asked."""
    chosen = TaskOptions(**options)
    _check_kind(name)
    first, _, rest = name.partition(":")
    if kind(name) == "jsonl":
        checked_rows(Path(name), chosen)
        check_scorer(chosen.scorer)
    elif first == "toy":
        questions(rest, chosen.task_options, chosen.size + chosen.held_out, chosen.seed)
    elif first == "gym" and find_spec("reasoning_gym"):
        gym_dataset(name, chosen)
    else:
        rows_of_folder(name)


def _check_kind(name: str) -> None:
    if kind(name) is None:
        raise ValueError(
            f"unknown task {name!r}: use gsm8k, gsm8k:FOLDER, gym:NAME (a dataset of reasoning-gym, such as "
            "gym:chain_sum), toy:NAME (such as toy:sort), or the path of a .jsonl file with prompt and answer"
        )


__all__ = ["OPTIONS", "TaskOptions", "TextTask", "check", "kind", "task"]

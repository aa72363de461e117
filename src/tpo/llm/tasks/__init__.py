"""Text tasks: prompts, the columns that the scorer takes, and the scorer.

A task is named by one string: `gsm8k`, `gsm8k@REVISION`, `gsm8k:FOLDER`, `gym:NAME` (any dataset of
reasoning-gym), `toy:NAME` (generated, for small models), or the path of a JSONL file with `prompt`
and `answer`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tpo.llm.tasks.gsm8k import gsm8k_task
from tpo.llm.tasks.gym import gym_task
from tpo.llm.tasks.jsonl import jsonl_task
from tpo.llm.tasks.options import TaskOptions
from tpo.llm.tasks.text_task import TextTask
from tpo.llm.tasks.toys import toy_task

OPTIONS = {
    "gsm8k": ("hint",),
    "gym": ("task_options", "hint", "extract", "threshold", "size"),
    "toy": ("task_options", "size"),
    "jsonl": ("scorer", "hint", "threshold"),
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
    chosen = TaskOptions(options or {}, **more)
    if kind(name) == "gsm8k":
        return gsm8k_task(name, chosen)
    if kind(name) == "gym":
        return gym_task(name, chosen)
    if kind(name) == "toy":
        return toy_task(name, chosen)
    if kind(name) == "jsonl":
        return jsonl_task(Path(name), chosen)
    raise ValueError(
        f"unknown task {name!r}: use gsm8k, gsm8k:FOLDER, gym:NAME (a dataset of reasoning-gym, such as "
        "gym:chain_sum), toy:NAME (such as toy:sort), or the path of a .jsonl file with prompt and answer"
    )


__all__ = ["OPTIONS", "TaskOptions", "TextTask", "kind", "task"]

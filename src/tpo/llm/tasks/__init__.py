"""Text tasks: prompts with what the scorer needs, and the scorer. GSM8K, reasoning-gym, toys, a user's JSONL.

A task is named by one string: `gsm8k`, `gsm8k:FOLDER`, `gym:NAME` (any dataset of reasoning-gym), `toy:NAME`
(made on the spot, for small models), or the path of a JSONL file with `prompt` and `answer`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tpo.llm.rewards.scorers import EXTRACT
from tpo.llm.tasks.gsm8k import gsm8k_task
from tpo.llm.tasks.gym import gym_task
from tpo.llm.tasks.jsonl import jsonl_task
from tpo.llm.tasks.text_task import TextTask, columns_of, datasets_of
from tpo.llm.tasks.toys import make

OPTIONS = {
    "gsm8k": ("hint",),
    "gym": ("task_options", "hint", "extract", "threshold", "size"),
    "toy": ("task_options", "size"),
    "jsonl": ("scorer", "hint", "threshold"),
}
"""What a recipe may say of each kind of task, beside `held_out`."""


def kind(name: str) -> str | None:
    """gsm8k, gym, toy or jsonl; None where there is no such task."""
    first, colon, _ = name.partition(":")
    if first == "gsm8k" or (colon and first in ("gym", "toy")):
        return first
    return "jsonl" if name.endswith((".jsonl", ".json")) else None


def task(
    name: str,
    options: Mapping[str, Any] | None = None,
    *,
    scorer: str | None = None,
    hint: str | None = None,
    extract: str = "tag",
    threshold: float | None = None,
    size: int = 2000,
    held_out: int = 100,
    seed: int = 0,
) -> TextTask:
    """The task of that name, its prompts as one user message each.

    `options` go to reasoning-gym or the toy; `hint` is added to every prompt (a fitting one by default, "" for
    none; toys have worked examples instead); `extract` is how reasoning-gym answers are taken from a completion
    (tag, number or text); `threshold` makes partial scores 0 or 1; `scorer` is a name of
    `tpo.llm.rewards.scorers.NAMED` or module:function, for a JSONL file.
    """
    if extract not in EXTRACT:
        raise ValueError(f"extract is {extract!r}, expected one of {', '.join(EXTRACT)}")
    for option, value in (("size", size), ("held_out", held_out)):
        if value < 1:
            raise ValueError(f"{option} is {value}, expected at least 1 prompt")
    if kind(name) == "gsm8k":
        return gsm8k_task(name, hint, held_out)
    if kind(name) == "gym":
        made = {"seed": seed, "size": size + held_out, **(options or {})}
        return gym_task(name, made, hint, extract, threshold, held_out)
    if kind(name) == "toy":
        return _toy(name, options or {}, size, held_out, seed)
    if kind(name) == "jsonl":
        return jsonl_task(Path(name), scorer or "exact", hint or "", threshold, held_out)
    raise ValueError(
        f"unknown task {name!r}: use gsm8k, gsm8k:FOLDER, gym:NAME (a dataset of reasoning-gym, such as "
        "gym:chain_sum), toy:NAME (such as toy:sort), or the path of a .jsonl file with prompt and answer"
    )


def _toy(name: str, options: Mapping[str, Any], size: int, held_out: int, seed: int) -> TextTask:
    made = make(name.partition(":")[2], options, size + held_out, seed)
    rows = [one._asdict() for one in made]
    return TextTask(
        name, *datasets_of(columns_of(rows[:size]), columns_of(rows[size:])), {"name": "exact"}
    )


__all__ = ["OPTIONS", "TextTask", "kind", "task"]

"""Any dataset of reasoning-gym, scored by its own rule."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from tpo.checks import close_match
from tpo.llm.tasks.text_task import TextTask, columns_of, datasets_of, messages

IN_TAGS = "Give the final answer between <answer> and </answer>."
HINTS = {"tag": IN_TAGS, "number": "Give the answer as a number.", "text": ""}


def gym_task(
    name: str,
    options: dict[str, Any],
    hint: str | None,
    extract: str,
    threshold: float | None,
    held_out: int,
) -> TextTask:
    """The dataset of that name with its options, the last prompts held out."""
    import reasoning_gym as gym
    from reasoning_gym.factory import DATASETS

    dataset = name.partition(":")[2]
    hint = HINTS[extract] if hint is None else hint
    if dataset not in DATASETS:
        names = sorted(DATASETS)
        raise ValueError(
            f"reasoning-gym has no dataset {dataset!r}.{close_match(dataset, names)} It has {', '.join(names)}"
        )
    try:
        data = gym.create_dataset(dataset, **options)
    except (TypeError, ValueError, AssertionError) as error:
        config = DATASETS[dataset][1]
        raise ValueError(
            f"task_options do not fit {name} ({error}): it takes {', '.join(f.name for f in fields(config))}"
        ) from error
    rows = [
        {"prompt": messages(data[i]["question"], hint), "index": i} for i in range(options["size"])
    ]
    scorer = {"name": dataset, "dataset": dataset, "options": options, "extract": extract}
    cut = len(rows) - held_out
    return TextTask(
        name,
        *datasets_of(columns_of(rows[:cut]), columns_of(rows[cut:])),
        scorer,
        ("index",),
        threshold,
    )

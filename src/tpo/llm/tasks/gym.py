"""Any dataset of reasoning-gym, scored by the dataset's own rule."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from tpo.checks import close_match
from tpo.llm.tasks.options import TaskOptions
from tpo.llm.tasks.text_task import TextTask, columns_of, datasets_of, messages

IN_TAGS = "Give the final answer between <answer> and </answer>."
HINTS = {"tag": IN_TAGS, "number": "Give the answer as a number.", "text": ""}


def gym_task(name: str, chosen: TaskOptions) -> TextTask:
    """The dataset of that name; the held-out prompts are its last ones."""
    dataset = name.partition(":")[2]
    hint = HINTS[chosen.extract] if chosen.hint is None else chosen.hint
    data, options = gym_dataset(name, chosen)
    rows = [
        {"prompt": messages(data[i]["question"], hint), "index": i} for i in range(options["size"])
    ]
    scorer = {
        "name": dataset,
        "dataset": dataset,
        "options": options,
        "extract": chosen.extract,
    }
    first = len(rows) - chosen.held_out
    return TextTask(
        name,
        *datasets_of(columns_of(rows[:first]), columns_of(rows[first:])),
        scorer,
        ("index",),
        chosen.threshold,
    )


def gym_dataset(name: str, chosen: TaskOptions) -> tuple[Any, dict[str, Any]]:
    """The dataset and its options; a wrong name or option is an error that lists the valid ones."""
    import reasoning_gym as gym
    from reasoning_gym.factory import DATASETS

    dataset = name.partition(":")[2]
    size = chosen.size + chosen.held_out
    options: dict[str, Any] = {"seed": chosen.seed, "size": size, **chosen.task_options}
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
    return data, options

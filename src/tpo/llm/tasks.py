"""Text tasks: prompts with what the scorer needs, and the scorer. GSM8K, reasoning-gym, toys, a user's JSONL.

A task is named by one string: `gsm8k`, `gsm8k:FOLDER`, `gym:NAME` (any dataset of reasoning-gym), `toy:NAME`
(made on the spot, for small models), or the path of a JSONL file with `prompt` and `answer`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tpo.checks import close_match
from tpo.llm.scorers import EXTRACT, NAMED
from tpo.llm.scoring import Scoring
from tpo.llm.toys import make

if TYPE_CHECKING:
    from datasets import Dataset

GSM8K = "openai/gsm8k"
STEP_BY_STEP = "Think step by step, then give the final answer as a number on the last line."
IN_TAGS = "Give the final answer between <answer> and </answer>."
HINTS = {"tag": IN_TAGS, "number": "Give the answer as a number.", "text": ""}


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


@dataclass(frozen=True)
class Task:
    """Prompts to train on, prompts held out, and how a completion is scored."""

    name: str
    train: Dataset
    """columns `prompt` and those that the scorer takes; no prompt that is held out"""
    held_out: Dataset
    scorer: Mapping[str, Any]
    """what `tpo.llm.scorers.load` takes"""
    columns: tuple[str, ...] = ("answer",)
    threshold: float | None = None

    def scoring(self, timeout: float = 10.0, workers: int = 2) -> Scoring:
        """The reward function for TRL; its processes start with the first call."""
        return Scoring(self.scorer, self.columns, timeout, workers, self.threshold)


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
) -> Task:
    """The task of that name, its prompts as one user message each.

    `options` go to reasoning-gym or the toy; `hint` is added to every prompt (a fitting one by default, "" for
    none; toys have worked examples instead); `extract` is how reasoning-gym answers are taken from a completion
    (tag, number or text); `threshold` makes partial scores 0 or 1; `scorer` is a name of
    `tpo.llm.scorers.NAMED` or module:function, for a JSONL file.
    """
    if extract not in EXTRACT:
        raise ValueError(f"extract is {extract!r}, expected one of {', '.join(EXTRACT)}")
    for option, value in (("size", size), ("held_out", held_out)):
        if value < 1:
            raise ValueError(f"{option} is {value}, expected at least 1 prompt")
    if kind(name) == "gsm8k":
        return _gsm8k(name, hint, held_out)
    if kind(name) == "gym":
        made = {"seed": seed, "size": size + held_out, **(options or {})}
        return _gym(name, made, hint, extract, threshold, held_out)
    if kind(name) == "toy":
        return _toy(name, options or {}, size, held_out, seed)
    if kind(name) == "jsonl":
        return _jsonl(Path(name), scorer or "exact", hint or "", threshold, held_out)
    raise ValueError(
        f"unknown task {name!r}: use gsm8k, gsm8k:FOLDER, gym:NAME (a dataset of reasoning-gym, such as "
        "gym:chain_sum), toy:NAME (such as toy:sort), or the path of a .jsonl file with prompt and answer"
    )


def messages(question: str, hint: str) -> list[dict[str, str]]:
    """A question as the one message of a conversation."""
    return [{"role": "user", "content": f"{question}\n{hint}".strip()}]


def _gsm8k(name: str, hint: str | None, held_out: int) -> Task:
    hint = STEP_BY_STEP if hint is None else hint
    folder = name.partition(":")[2]
    if folder:
        parts = [
            _read_jsonl(Path(folder) / f"{part}.jsonl", "question") for part in ("train", "test")
        ]
    else:
        from datasets import load_dataset

        try:
            parts = [list(load_dataset(GSM8K, "main", split=part)) for part in ("train", "test")]
        except OSError as error:
            raise OSError(
                f"gsm8k is not read from the hub ({error}): give gsm8k:FOLDER, with train.jsonl and test.jsonl"
            ) from error
    train, test = [
        {
            "prompt": [messages(row["question"], hint) for row in rows],
            "answer": [str(row["answer"]) for row in rows],
        }
        for rows in (parts[0], parts[1][:held_out])
    ]
    return Task("gsm8k", *_datasets(train, test), {"name": "gsm8k"})


def _gym(
    name: str,
    options: dict[str, Any],
    hint: str | None,
    extract: str,
    threshold: float | None,
    held_out: int,
) -> Task:
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
    return Task(
        name,
        *_datasets(_columns(rows[:cut]), _columns(rows[cut:])),
        scorer,
        ("index",),
        threshold,
    )


def _toy(name: str, options: Mapping[str, Any], size: int, held_out: int, seed: int) -> Task:
    made = make(name.partition(":")[2], options, size + held_out, seed)
    rows = [one._asdict() for one in made]
    return Task(name, *_datasets(_columns(rows[:size]), _columns(rows[size:])), {"name": "exact"})


def _jsonl(path: Path, scorer: str, hint: str, threshold: float | None, held_out: int) -> Task:
    if scorer not in NAMED and ":" not in scorer:
        raise ValueError(
            f"unknown scorer {scorer!r}. Valid names: {', '.join(NAMED)}; or an import path module:function"
        )
    rows = _read_jsonl(path, "prompt")
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
    return Task(path.name, *_datasets(train, test), {"name": scorer}, ("answer",), threshold)


def _read_jsonl(path: Path, question: str) -> list[dict[str, Any]]:
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


def _columns(rows: list[dict[str, Any]]) -> dict[str, list[Any]]:
    return {name: [row[name] for row in rows] for name in rows[0]}


def _datasets(train: Mapping[str, Any], held_out: Mapping[str, Any]) -> tuple[Dataset, Dataset]:
    """Both parts; what is held out is no question of training, though a small task asks it again and again."""
    from datasets import Dataset

    asked = set(map(json.dumps, held_out["prompt"]))
    kept = [i for i, prompt in enumerate(train["prompt"]) if json.dumps(prompt) not in asked]
    if not kept:
        raise ValueError(
            f"every prompt to train on is among the {len(asked)} different ones that are held out: lower "
            "held_out, or ask more different questions"
        )
    own = {name: [values[i] for i in kept] for name, values in train.items()}
    return Dataset.from_dict(own), Dataset.from_dict(dict(held_out))

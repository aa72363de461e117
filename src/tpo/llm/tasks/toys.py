"""Generated text tasks, for models too small for the usual ones.

A task is a function that draws a question and its answer. Its docstring is the instruction in the prompt.
Worked examples come before every question, as turns of the conversation: they show a small model how to answer.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from random import Random
from typing import Any, NamedTuple

from tpo.checks import close_match
from tpo.llm.tasks.options import TaskOptions
from tpo.llm.tasks.text_task import TextTask, columns_of, datasets_of

EXAMPLES = 2
"""Worked examples before each question, unless the option `examples` gives another number."""
LETTERS = "abcdefghijklmnoprstuvw"


def _numbers(draw: Random, n: int) -> list[int]:
    """n random numbers of two digits."""
    return [draw.randint(10, 99) for _ in range(n)]


def _joined(values: Any) -> str:
    return " ".join(map(str, values))


def varied_length(draw: Random, length: int, spread: int) -> int:
    """A random length within `spread` of `length`, for questions of unequal difficulty."""
    if not 0 <= spread < length:
        raise ValueError(f"spread is {spread}, expected 0 to {length - 1}, less than length")
    return length + draw.randint(-spread, spread) if spread else length


def sort(draw: Random, length: int = 4, spread: int = 0) -> tuple[str, str]:
    """Sort the numbers from small to large."""
    x = _numbers(draw, varied_length(draw, length, spread))
    return _joined(x), _joined(sorted(x))


def subtract(draw: Random) -> tuple[str, str]:
    """Subtract."""
    b, a = sorted(_numbers(draw, 2))
    return f"{a} - {b}", str(a - b)


def add(draw: Random) -> tuple[str, str]:
    """Add step by step."""
    a, b, c = _numbers(draw, 3)
    return f"{a} + {b} + {c}", f"{a} + {b} = {a + b}, {a + b} + {c} = {a + b + c}"


def digits(draw: Random, length: int = 4, spread: int = 0) -> tuple[str, str]:
    """Add the digits."""
    x = [draw.randint(1, 9) for _ in range(varied_length(draw, length, spread))]
    return _joined(x), str(sum(x))


def reverse(draw: Random, length: int = 4, spread: int = 0) -> tuple[str, str]:
    """Reverse the letters."""
    # no letter twice: a copy of a palindrome would be a right answer
    x = draw.sample(LETTERS, varied_length(draw, length, spread))
    return "".join(x), "".join(reversed(x))


def count(draw: Random, length: int = 32, spread: int = 4) -> tuple[str, str]:
    """Count from the first number to the second, every number once."""
    a = draw.randint(1, 60)
    b = a + varied_length(draw, length, spread)
    return f"{a} to {b}", _joined(range(a, b + 1))


Toy = Callable[..., tuple[str, str]]
TOYS: dict[str, Toy] = {f.__name__: f for f in (sort, subtract, add, digits, reverse, count)}


class Question(NamedTuple):
    """A question as a conversation, and its answer."""

    prompt: list[dict[str, str]]
    answer: str


def toy_task(name: str, chosen: TaskOptions) -> TextTask:
    """The toy of that name; the held-out prompts are the last questions that were drawn."""
    size = chosen.size
    found = questions(
        name.partition(":")[2], chosen.task_options, size + chosen.held_out, chosen.seed
    )
    rows = [question._asdict() for question in found]
    return TextTask(
        name, *datasets_of(columns_of(rows[:size]), columns_of(rows[size:])), {"name": "exact"}
    )


def questions(name: str, options: Mapping[str, Any], n: int, seed: int) -> list[Question]:
    """n different questions of a toy task, none of them a worked example."""
    if name not in TOYS:
        hint = close_match(name, list(TOYS))
        raise ValueError(f"unknown toy task {name!r}.{hint} Valid names: {', '.join(TOYS)}")
    toy, draw, own = TOYS[name], Random(seed), dict(options)
    examples = own.pop("examples", EXAMPLES)
    if not isinstance(examples, int) or examples < 0:
        raise ValueError(
            f"task_options hold examples {examples!r}, expected a whole number, 0 or more"
        )
    try:
        toy(Random(seed), **own)
    except (TypeError, ValueError) as error:
        takes = ", ".join([*list(inspect.signature(toy).parameters)[1:], "examples"])
        raise ValueError(
            f"task_options do not fit toy:{name} ({error}): it takes {takes}, whole numbers"
        ) from error
    shown = [toy(draw, **own) for _ in range(examples)]
    found = dict(shown)
    for _ in range(20 * n):
        found.setdefault(*toy(draw, **own))
        if len(found) == n + len(shown):
            break
    else:
        raise ValueError(
            f"toy:{name} has {len(found) - len(shown)} different questions with these task_options, and size "
            f"and held_out ask for {n}: lower them"
        )
    drawn = list(found.items())[len(shown) :]
    return [
        Question(_conversation(str(toy.__doc__), shown, question), answer)
        for question, answer in drawn
    ]


def _conversation(
    instruction: str, shown: list[tuple[str, str]], question: str
) -> list[dict[str, str]]:
    """The worked examples `shown` as turns of a user and an assistant, then the question."""
    turns = [
        {"role": role, "content": text}
        for example, answer in shown
        for role, text in (("user", f"{instruction} {example}"), ("assistant", answer))
    ]
    return [*turns, {"role": "user", "content": f"{instruction} {question}"}]

"""Scorers: functions of a completion and the right answer that return a score from 0 to 1; no torch."""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tpo.llm.rewards.gym_scorer import gym_scorer

Scorer = Callable[..., float | None]

_NUMBER = re.compile(r"-?\d[\d,]*(?:\.\d+)?")


def last_number(text: str) -> str | None:
    """The last number of a text, without thousands separators; None if it has no number."""
    found = _NUMBER.findall(text)
    return found[-1].replace(",", "") if found else None


def tagged(text: str, tag: str = "answer") -> str:
    """The text in the last <answer>...</answer>; without such a tag, the whole text."""
    found = re.findall(rf"<{tag}>(.*?)</{tag}>", text, re.DOTALL)
    return (found[-1] if found else text).strip()


def number(completion: str, answer: str | float) -> float:
    """1 if the last number of the completion equals that of the answer."""
    given, wanted = last_number(completion), last_number(str(answer))
    if wanted is None:
        raise ValueError(f"answer {answer!r} holds no number: use the scorer 'exact'")
    return float(given is not None and float(given) == float(wanted))


def gsm8k(completion: str, answer: str) -> float:
    """1 if the last number of the completion equals the number after #### in the answer."""
    return number(completion, answer.rpartition("####")[2])


def exact(completion: str, answer: str) -> float:
    """1 if completion and answer are the same text, regardless of white space and case."""
    return float(_plain(tagged(completion)) == _plain(str(answer)))


def contains(completion: str, answer: str) -> float:
    """1 if the completion contains the answer, regardless of white space and case."""
    return float(_plain(str(answer)) in _plain(completion))


def _plain(text: str) -> str:
    return " ".join(text.lower().split())


NAMED: dict[str, Scorer] = {
    "number": number,
    "gsm8k": gsm8k,
    "exact": exact,
    "contains": contains,
}


def load(spec: Mapping[str, Any]) -> Scorer:
    """The scorer of a spec: {"name": one of NAMED}, {"name": "module:function"}, or a reasoning-gym dataset.

    The last is {"name": ..., "dataset": ..., "options": {...}, "extract": "tag" | "number" | "text"}; it
    creates the dataset again and scores by the row's `index`. A function of your own takes the completion, then
    the row's "columns" (the answer).
    """
    if "dataset" in spec:
        extract = EXTRACT[spec.get("extract", "tag")]
        return gym_scorer(spec["dataset"], spec.get("options", {}), extract)
    name = str(spec["name"])
    if name in NAMED:
        return NAMED[name]
    module, colon, attribute = name.partition(":")
    if not colon:
        raise ValueError(
            f"unknown scorer {name!r}. Valid names: {', '.join(NAMED)}; or an import path module:function"
        )
    found: Scorer = getattr(importlib.import_module(module), attribute)
    _check_call(name, found, ("completion", *spec.get("columns", ("answer",))))
    return found


def _check_call(name: str, found: Any, given: Sequence[str]) -> None:
    """TypeError if the scorer cannot be called with these arguments: it would score nothing."""
    try:
        inspect.signature(found).bind(*given)
    except TypeError as error:
        raise TypeError(f"{name} does not take ({', '.join(given)}) by position: {error}") from None
    except ValueError:
        pass  # a function written in C may have no signature


EXTRACT: dict[str, Callable[[str], str | None]] = {
    "tag": tagged,
    "number": last_number,
    "text": str.strip,
}
"""How the answer is extracted from a completion, by name."""

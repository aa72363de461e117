"""Methods as text: `NAME:option=value:...`, in every command, in studies, comparisons and reports."""

from __future__ import annotations

import ast
import json
from collections.abc import Mapping
from typing import Any

from tpo.objectives.base import label as objective_label
from tpo.user_code import split_options

LABELS = {"pg": "PG", "tpo_token": "TPO token", "grpo_token": "GRPO token"}
"""Methods of the TPO paper that are not objectives by themselves."""


def parse(text: str) -> tuple[str, dict[str, Any]]:
    """("tpo", {"eta": 0.5}) of "tpo:eta=0.5". What the options accept is for the caller to check."""
    name, *pairs = split_options(text.strip())
    options: dict[str, Any] = {}
    for pair in pairs:
        option, _, value = pair.partition("=")
        if not option or not value:
            raise ValueError(f"method {text!r} holds {pair!r}, expected option=value")
        if option in options:
            raise ValueError(f"method {text!r} holds {option} twice")
        options[option] = parse_value(value)
    return name, options


def parse_value(text: str) -> Any:
    """A number, true or false, or text; tuples as Python writes them. None is text: leave the option out."""
    for read in (ast.literal_eval, json.loads, float):
        try:
            found = read(text)
        except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
            continue
        return text if found is None else found
    return text


def written(name: str, options: Mapping[str, Any]) -> str:
    """The text that `parse` reads as this method."""
    return ":".join([name, *(f"{key}={written_value(value)}" for key, value in options.items())])


def written_value(value: Any) -> str:
    """The text that `parse_value` reads as this value."""
    return value if isinstance(value, str) else json.dumps(value)


def label(text: str, labels: Mapping[str, str] | None = None) -> str:
    """The name of a method in tables and figures; `labels` are a study's own names."""
    name, options = parse(text)
    words = {**LABELS, **(labels or {})}.get(name) or objective_label(name)
    return ", ".join([words, *(f"{key} {value}" for key, value in options.items())])

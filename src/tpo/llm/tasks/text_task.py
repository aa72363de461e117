"""TextTask: the value that every kind of task is turned into, and helpers to make one."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tpo.llm.rewards.pool import Scoring
from tpo.llm.rewards.sandbox import DEFAULT, Sandbox
from tpo.llm.run_options import ScoringOptions

if TYPE_CHECKING:
    from datasets import Dataset


@dataclass(frozen=True)
class TextTask:
    """Prompts to train on, prompts held out, and how a completion is scored."""

    name: str
    train: Dataset
    """columns `prompt` and those that the scorer takes; none of the held-out prompts"""
    held_out: Dataset
    scorer: Mapping[str, Any]
    """what `tpo.llm.rewards.scorers.load` takes"""
    columns: tuple[str, ...] = ("answer",)
    """what the scorer takes after the completion"""
    threshold: float | None = None
    """a score above this becomes 1, any other 0; None keeps partial scores"""
    revision: str | None = None
    """the commit of a dataset of the hub"""

    def scoring(
        self,
        timeout: float = ScoringOptions.timeout,
        workers: int = ScoringOptions.scorers,
        sandbox: Sandbox = DEFAULT,
    ) -> Scoring:
        """A reward function for TRL; the processes that score start with its first call."""
        return Scoring(self.scorer, self.columns, timeout, workers, self.threshold, sandbox)


def messages(question: str, hint: str) -> list[dict[str, str]]:
    """A conversation of one message, the question and the hint."""
    return [{"role": "user", "content": f"{question}\n{hint}".strip()}]


def columns_of(rows: list[dict[str, Any]]) -> dict[str, list[Any]]:
    """The columns of a table from its rows."""
    return {name: [row[name] for row in rows] for name in rows[0]}


def datasets_of(train: Mapping[str, Any], held_out: Mapping[str, Any]) -> tuple[Dataset, Dataset]:
    """Both parts as datasets; a prompt to train on that is also held out, as in a small task, is dropped."""
    from datasets import Dataset

    excluded = set(map(json.dumps, held_out["prompt"]))
    kept = [i for i, prompt in enumerate(train["prompt"]) if json.dumps(prompt) not in excluded]
    if not kept:
        raise ValueError(
            f"every prompt to train on is among the {len(excluded)} different ones that are held out: lower "
            "held_out, or make more different questions"
        )
    own = {name: [values[i] for i in kept] for name, values in train.items()}
    return Dataset.from_dict(own), Dataset.from_dict(dict(held_out))

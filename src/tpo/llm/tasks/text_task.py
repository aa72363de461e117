"""TextTask: prompts to train on, prompts held out, and how a completion is scored."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tpo.llm.rewards.pool import Scoring

if TYPE_CHECKING:
    from datasets import Dataset


@dataclass(frozen=True)
class TextTask:
    """Prompts to train on, prompts held out, and how a completion is scored."""

    name: str
    train: Dataset
    """columns `prompt` and those that the scorer takes; no prompt that is held out"""
    held_out: Dataset
    scorer: Mapping[str, Any]
    """what `tpo.llm.rewards.scorers.load` takes"""
    columns: tuple[str, ...] = ("answer",)
    threshold: float | None = None

    def scoring(self, timeout: float = 10.0, workers: int = 2) -> Scoring:
        """The reward function for TRL; its processes start with the first call."""
        return Scoring(self.scorer, self.columns, timeout, workers, self.threshold)


def messages(question: str, hint: str) -> list[dict[str, str]]:
    """A question as the one message of a conversation."""
    return [{"role": "user", "content": f"{question}\n{hint}".strip()}]


def columns_of(rows: list[dict[str, Any]]) -> dict[str, list[Any]]:
    """Rows as columns."""
    return {name: [row[name] for row in rows] for name in rows[0]}


def datasets_of(train: Mapping[str, Any], held_out: Mapping[str, Any]) -> tuple[Dataset, Dataset]:
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

"""Options of a task: how its prompts are made and how their completions are scored."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tpo.llm.rewards.scorers import EXTRACT


@dataclass(frozen=True)
class TaskOptions:
    """What can be chosen for a task besides its name; `tpo.llm.tasks.OPTIONS` lists what each kind takes."""

    task_options: Mapping[str, Any] = field(default_factory=dict)
    """options of the reasoning-gym dataset or of the toy"""
    scorer: str | None = None
    """a name of `tpo.llm.rewards.scorers.NAMED` or module:function; None for exact"""
    hint: str | None = None
    """added to every prompt; None for one that suits the task, "" for none. Toys have examples instead"""
    extract: str = "tag"
    """how the answer is taken from a completion: tag, number or text"""
    threshold: float | None = None
    """a score above this becomes 1, any other 0; None keeps partial scores"""
    size: int = 2000
    """prompts to train on"""
    held_out: int = 100
    """prompts to evaluate on"""
    seed: int = 0

    def __post_init__(self) -> None:
        if self.extract not in EXTRACT:
            raise ValueError(f"extract is {self.extract!r}, expected one of {', '.join(EXTRACT)}")
        for name in ("size", "held_out"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}, expected at least 1 prompt")

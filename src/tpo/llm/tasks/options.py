"""Options of a task: how its prompts are made and how their completions are scored."""

from __future__ import annotations

from dataclasses import dataclass

from tpo.llm.run_options import PromptOptions
from tpo.options import WHOLE, check, option


@dataclass(frozen=True)
class TaskOptions(PromptOptions):
    """What can be chosen for a task besides its name; `tpo.llm.tasks.OPTIONS` lists what each kind takes."""

    seed: int = option(
        0, WHOLE, "of the prompts that are drawn; runs leave it, so that all have the same"
    )

    def __post_init__(self) -> None:
        check(self)

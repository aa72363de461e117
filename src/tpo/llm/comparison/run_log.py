"""What the runs of a comparison left, and their logs as curves over rollout batches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from tpo.llm.comparison.method import Method
from tpo.llm.comparison.plan import Run
from tpo.llm.runs.artifacts import read_lines
from tpo.llm.runs.recipe import Recipe
from tpo.storage.files import read_json

MEASURES = ("reward", "entropy", "completions/mean_length", "groups/zero_variance")
"""Curves of the log."""
QUIET_END = 0.1
"""A run is named if it ends with more than this share of its rollout batches without an informative group."""


class Record(NamedTuple):
    """What a run left so far."""

    run: Run
    log: list[dict[str, Any]]
    evaluations: list[dict[str, Any]]
    result: dict[str, Any] | None
    error: str | None
    """why it failed, where it did"""
    kind: str | None
    """the error's class, or Lost"""

    @classmethod
    def read(cls, run: Run) -> Record:
        """From its folder."""
        failed, result = (read_json(run.folder / f"{name}.json") for name in ("failed", "result"))
        return cls(
            run,
            read_lines(run.folder / "log.jsonl"),
            result["evaluations"] if result else read_lines(run.folder / "evaluations.jsonl"),
            result,
            failed["error"] if failed else None,
            failed["kind"] if failed else None,
        )

    @property
    def mean_accuracy(self) -> float:
        """Of samples on held-out prompts, over all evaluations: the area under the curve."""
        return float(np.mean([row["sampled"] for row in self.evaluations]))

    @property
    def learned(self) -> bool:
        """Whether it was better over its evaluations than before the first step."""
        return self.mean_accuracy > self.evaluations[0]["sampled"]

    @property
    def clipped(self) -> float | None:
        """Share of logged steps whose gradient was cut to `max_grad_norm` (0: never); None: none is logged."""
        longest = self.run.recipe.max_grad_norm or np.inf
        lengths = np.array([x for row in self.log if (x := row.get("grad_norm")) is not None])
        return float(np.mean(np.isfinite(lengths) & (lengths > longest))) if len(lengths) else None

    @property
    def troubles(self) -> list[str]:
        """What a reader of its numbers should know of steps, of scores, and of how it ended."""
        skipped = sum(row.get("skipped_steps") or 0.0 for row in self.log)
        unscored = [x for row in self.log if (x := row.get("reward_failures")) is not None]
        held_out = sum(row.get("failures", 0) for row in self.evaluations)
        batches, silent = self.run.recipe.batches, self.uninformative_batches
        told = {
            f"{skipped:.0f} of {len(self.log)} steps skipped, their gradient not finite": skipped,
            f"{np.mean(unscored or [0.0]):.2%} of completions not scored": sum(unscored),
            f"{held_out} held-out completions not scored, which count as not solved": held_out,
            f"no informative group in the last {silent} of {batches} rollout batches": (
                silent > QUIET_END * batches
            ),
        }
        return [words for words, number in told.items() if number]

    @property
    def uninformative_batches(self) -> int:
        """Rollout batches up to the last, without a break, without an informative group and not all solved."""
        flat, solved = (
            curve(self.log, f"groups/{name}", self.run.recipe)
            for name in ("zero_variance", "all_pass")
        )
        silent = (flat == 1) & ~(solved > 0.5)
        return len(silent) if silent.all() else int(np.argmin(silent[::-1]))

    @property
    def rollouts(self) -> np.ndarray:
        """[evaluations] completions that were sampled before each."""
        recipe = self.run.recipe
        batches = np.array([row["step"] // recipe.epochs for row in self.evaluations])
        return batches * recipe.prompts * recipe.group_size


Records = Mapping[Method, Sequence[Record]]
"""Every seed of every method."""


def curve(log: Sequence[Mapping[str, Any]], measure: str, recipe: Recipe) -> np.ndarray:
    """[rollout batches] a measure, the mean over the passes that have it.

    Where a batch has none the last one stands; NaN before the first and after the last step.
    """
    found: list[list[float]] = [[] for _ in range(recipe.batches)]
    for row in log:
        batch = (row["step"] - 1) // recipe.epochs
        if isinstance(row.get(measure), (int, float)) and 0 <= batch < recipe.batches:
            found[batch].append(row[measure])
    values = np.array([np.mean(x) if x else np.nan for x in found])
    reached = -(-log[-1]["step"] // recipe.epochs) if log else 0
    for i in range(1, min(reached, recipe.batches)):
        if np.isnan(values[i]):
            values[i] = values[i - 1]
    return values

"""Tasks of a mixture: the task of each prompt, and the weights of tasks, updated between rollout batches."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import torch

from tpo.groups import Groups
from tpo.llm.trl.counters import CheckpointedCounter
from tpo.objectives import Objective, task_logits_after
from tpo.objectives.corrections import Correction, uncorrected

COLUMN = "task"
"""The column of a data set that names the task of each prompt."""


class TaskWeights(CheckpointedCounter):
    """The weights of an objective with `task_logits`; without one, or without the column, nothing happens."""

    name = "tpo_tasks"

    def __init__(self, trainer: Any) -> None:
        """Start from the objective's `task_logits`, by default equal ones."""
        self.trainer = trainer
        start: tuple[float, ...] = getattr(uncorrected(trainer.objective), "task_logits", ())
        self.names = _names(trainer.train_dataset) if start else []
        self.ids: torch.Tensor | None = None
        """[G] the tasks of the current rollout batch"""
        self.scores: dict[str, float] = {}
        """mean score of each task in the last batch that had it"""
        if self.names and len(start) == 1:
            start = start * len(self.names)
        if self.names and len(start) != len(self.names):
            raise ValueError(
                f"objective_options holds {len(start)} task_logits, and the column {COLUMN} {len(self.names)} "
                f"tasks ({', '.join(self.names)}): give one per task, or leave task_logits out"
            )
        self.logits = start

    def read(self, inputs: list[dict[str, Any]], K: int) -> None:
        """Take the tasks of a new rollout batch from this rank's rows, and the weights for training on it."""
        if not self.names:
            return
        trainer = self.trainer
        for row in inputs:
            if str(row.get(COLUMN)) not in self.names:
                raise ValueError(
                    f"a prompt has {COLUMN} {row.get(COLUMN)!r}, expected one of {', '.join(self.names)}"
                )
        ids = [self.names.index(str(row[COLUMN])) for row in inputs]
        rows = torch.tensor(ids, device=trainer.accelerator.device)
        self.ids = trainer.collectives.gather_rows(rows[:, None])[::K, 0]
        trainer.objective = _with_logits(trainer.objective, self.logits)

    def observe(self, groups: Groups) -> None:
        """Log the weights that train on these groups, and update them for the next batch."""
        if self.ids is None:
            return
        top = max(self.logits)
        weights = [math.exp(w - top) for w in self.logits]
        shares = {n: w / sum(weights) for n, w in zip(self.names, weights, strict=True)}
        found = {
            name: float(of_task.mean())
            for j, name in enumerate(self.names)
            if len(of_task := groups.total[_valid(groups) & (self.ids == j)[:, None]])
        }
        self.trainer.metric_log.add(
            **{f"task_weight/{name}": share for name, share in shares.items()},
            **{f"task_score/{name}": score for name, score in found.items()},
        )
        gains = [found[n] - self.scores.get(n, found[n]) if n in found else 0.0 for n in self.names]
        self.scores |= found
        if self.scores:
            usual = sum(self.scores.values()) / len(self.scores)
            known = [self.scores.get(n, usual) for n in self.names]
            self.logits = task_logits_after(self.logits, known, gains)

    def to_dict(self) -> dict[str, Any]:
        """As JSON."""
        return {"names": self.names, "logits": list(self.logits), "scores": self.scores}

    def restore(self, counts: dict[str, Any]) -> None:
        """Continue with the weights of the checkpoint, if its tasks are these."""
        if counts["names"] != self.names:
            before, now = (", ".join(names) or "none" for names in (counts["names"], self.names))
            raise ValueError(
                f"the checkpoint has weights of tasks {before}, and the data set has tasks {now}: resume with "
                "the data set of the run"
            )
        self.logits, self.scores = tuple(counts["logits"]), dict(counts["scores"])


def _names(dataset: Any) -> list[str]:
    if COLUMN not in (getattr(dataset, "column_names", None) or ()):
        return []
    try:
        return sorted({str(one) for one in dataset[COLUMN]})
    except (TypeError, NotImplementedError, KeyError):
        raise ValueError(
            f"the data set is a stream, and the tasks in its column {COLUMN} must be known at the start: load "
            "it whole"
        ) from None


def _valid(groups: Groups) -> torch.Tensor:
    """[G, K] candidates whose score counts."""
    if groups.counted is None:
        return torch.ones_like(groups.total, dtype=torch.bool)
    counted: torch.Tensor = groups.counted
    return counted


def _with_logits(objective: Objective, logits: tuple[float, ...]) -> Objective:
    """The objective with these task logits, inside its corrections."""
    if isinstance(objective, Correction):
        return replace(objective, inner=_with_logits(objective.inner, logits))
    return replace(objective, task_logits=logits)  # type: ignore[call-arg]

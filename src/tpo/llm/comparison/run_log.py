"""What the runs of a comparison wrote, and their logs as curves over rollout batches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tpo.llm.comparison.method import MethodSpec
from tpo.llm.comparison.plan import Run
from tpo.llm.runs.artifacts import RESULT, JsonFile, read_lines
from tpo.llm.runs.recipe import Recipe

MEASURES = ("reward", "entropy", "completions/mean_length", "groups/zero_variance")
"""Metrics of log.jsonl that are kept as curves."""
UNINFORMATIVE_END = 0.1
"""A run is named if it ends with more than this share of its rollout batches without an informative group."""
FAILED = JsonFile("failed.json", {"error": str, "kind": str}, "remove it")
BROKEN_FILE = "broken file"
"""The `error_kind` of a run with a file that cannot be read."""


LOGGED = (*MEASURES, "groups/all_pass", "grad_norm", "skipped_steps", "reward_failures")
"""Numbers of a row that may be missing."""
EVALUATED = ("step", "greedy", "sampled", "pass_at_k")
"""Numbers that every evaluation has."""


class RunLog(NamedTuple):
    """What a run has written so far."""

    run: Run
    rows: list[dict[str, Any]]
    """of log.jsonl, one per optimiser step"""
    evaluations: list[dict[str, Any]]
    result: dict[str, Any] | None
    """of a complete run"""
    error: str | None
    """why it failed, if it did"""
    error_kind: str | None
    """the error's class; Lost if the process died; BROKEN_FILE"""

    @classmethod
    def read(cls, run: Run) -> RunLog:
        """From the run's folder; a broken file counts as the run's failure."""
        try:
            return cls._read(run)
        except ValueError as error:
            return cls(run, [], [], None, str(error), BROKEN_FILE)

    @classmethod
    def _read(cls, run: Run) -> RunLog:
        failed, result = FAILED.read(run.folder), RESULT.read(run.folder)
        log = run.folder / "log.jsonl"
        rows = read_lines(log)
        logged = rows[-1]["step"] if rows else 0
        last_batch = run.recipe.steps - run.recipe.epochs
        if result and logged <= last_batch and "logging_steps" not in run.recipe.trl:
            raise ValueError(
                f"{log} ends at step {logged} of {run.recipe.steps}, and {RESULT.name} is there: restore the "
                f"log, or remove {RESULT.name}: --resume then finishes the run again"
            )
        evaluations = run.folder / "evaluations.jsonl"
        evaluated = result["evaluations"] if result else read_lines(evaluations)
        _check_numbers(log, rows, (), LOGGED)
        _check_numbers(
            run.folder / RESULT.name if result else evaluations,
            evaluated,
            EVALUATED,
            ("kl", "failures"),
        )
        if result:
            if not evaluated:
                raise ValueError(f"{run.folder / RESULT.name} has no evaluation: {RESULT.way_out}")
            costs = [result, result["seconds_per_step"]]
            _check_numbers(run.folder / RESULT.name, costs, (), ("seconds", "step", "peak_memory"))
        return cls(
            run,
            rows,
            evaluated,
            result,
            failed["error"] if failed else None,
            failed["kind"] if failed else None,
        )

    @property
    def mean_accuracy(self) -> float:
        """Of samples on held-out prompts, over all evaluations: the area under the curve."""
        return float(np.mean([row["sampled"] for row in self.evaluations]))

    @property
    def improved(self) -> bool:
        """Whether the mean over its evaluations is above the accuracy before the first step."""
        return self.mean_accuracy > self.evaluations[0]["sampled"]

    @property
    def clipped_share(self) -> float | None:
        """Share of logged steps whose gradient was clipped by `max_grad_norm`; None if no norm is logged."""
        bound = self.run.recipe.max_grad_norm or np.inf
        norms = np.array([x for row in self.rows if (x := row.get("grad_norm")) is not None])
        return float(np.mean(np.isfinite(norms) & (norms > bound))) if len(norms) else None

    @property
    def problems(self) -> list[str]:
        """What a reader of its numbers should know: skipped steps, missing scores, and how the run ended."""
        skipped = sum(row.get("skipped_steps") or 0.0 for row in self.rows)
        unscored = [x for row in self.rows if (x := row.get("reward_failures")) is not None]
        held_out = sum(row.get("failures", 0) for row in self.evaluations)
        batches, uninformative = self.run.recipe.batches, self.uninformative_at_end
        problems = {
            f"{skipped:.0f} of {len(self.rows)} steps skipped, their gradient not finite": skipped,
            f"{np.mean(unscored or [0.0]):.2%} of completions not scored": sum(unscored),
            f"{held_out} held-out completions not scored, which count as not solved": held_out,
            f"no informative group in the last {uninformative} of {batches} rollout batches": (
                uninformative > UNINFORMATIVE_END * batches
            ),
        }
        return [text for text, occurred in problems.items() if occurred]

    @property
    def uninformative_at_end(self) -> int:
        """Consecutive rollout batches, up to the last, without an informative group and not mostly solved."""
        flat, solved = (
            curve(self.rows, f"groups/{name}", self.run.recipe)
            for name in ("zero_variance", "all_pass")
        )
        uninformative = (flat == 1) & ~(solved > 0.5)
        return len(flat) if uninformative.all() else int(np.argmin(uninformative[::-1]))

    @property
    def rollouts(self) -> np.ndarray:
        """[evaluations] completions that were sampled before each."""
        recipe = self.run.recipe
        batches = np.array([row["step"] // recipe.epochs for row in self.evaluations])
        return batches * recipe.prompts * recipe.group_size


def _check_numbers(
    path: Path, rows: Sequence[Any], needed: Sequence[str], optional: Sequence[str]
) -> None:
    """ValueError that names the file, and the first row that is not an object, or value not a number."""
    for row in rows:
        if not isinstance(row, Mapping):
            raise ValueError(f"{path} holds {row!r:.60}, expected an object: {RESULT.way_out}")
        for name in (*needed, *optional):
            value = row.get(name)
            if not (_is_number(value) or (value is None and name not in needed)):
                raise ValueError(
                    f"{path} holds {name!r} {value!r:.60}, expected a number: {RESULT.way_out}"
                )


def _is_number(value: Any) -> bool:
    return isinstance(value, float) or (isinstance(value, int) and abs(value) < 2**63)


RunLogs = Mapping[MethodSpec, Sequence[RunLog]]
"""Every seed of every method."""


def accuracy(logs: Sequence[RunLog]) -> tuple[np.ndarray, np.ndarray]:
    """[evaluations that all these runs have] rollouts; accuracy of held-out samples, the mean over the runs."""
    curves = [
        dict(zip(log.rollouts.tolist(), (row["sampled"] for row in log.evaluations), strict=True))
        for log in logs
    ]
    shared = sorted(set.intersection(*map(set, curves)))
    return np.array(shared), np.mean([[one[n] for n in shared] for one in curves], axis=0)


def curve(rows: Sequence[Mapping[str, Any]], measure: str, recipe: Recipe) -> np.ndarray:
    """[rollout batches] a metric of log.jsonl, the mean over the epochs of a batch that log it.

    A batch without it takes the value of the batch before; NaN before the first value and after the last step.
    """
    logged: list[list[float]] = [[] for _ in range(recipe.batches)]
    for row in rows:
        batch = (row["step"] - 1) // recipe.epochs
        if isinstance(row.get(measure), (int, float)) and 0 <= batch < recipe.batches:
            logged[batch].append(row[measure])
    values = np.array([np.mean(x) if x else np.nan for x in logged])
    begun = -(-rows[-1]["step"] // recipe.epochs) if rows else 0
    for i in range(1, min(begun, recipe.batches)):
        if np.isnan(values[i]):
            values[i] = values[i - 1]
    return values

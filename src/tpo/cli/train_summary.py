"""What `tpo train` prints of a run or a comparison that has ended."""

from __future__ import annotations

from typing import Any

from tpo.llm.comparison.time_to_goal import timed


def failures(result: dict[str, Any]) -> list[str]:
    """What went wrong in a run that ended all the same."""
    kinds = ", ".join(f"{kind} {n}" for kind, n in result["reward_failures"].items())
    held_out = sum(row["failures"] for row in result["evaluations"])
    told = {
        "completions that could not be scored while training": kinds,
        "and on held-out prompts, where they count as not solved": held_out,
        "steps skipped, their gradient not finite": result["skipped_steps"],
    }
    return [f"{what}: {number}" for what, number in told.items() if number]


def lines_of(found: dict[str, Any]) -> list[str]:
    """The summary of a comparison: tuning, every metric, when methods reach the goal, and verdicts."""
    rows = found["table"]["rows"]
    wide = 2 + max(len(name) for name in ("method", *(row["method"] for row in rows)))
    lines = [f"{'method':{wide}}{'metric':28}{'mean':>12}{'n':>4}"]
    for row in rows:
        mean = f"{row['mean']:.4g}" if row["n"] else ""
        lines.append(f"{row['method']:{wide}}{row['metric']:28}{mean:>12}{row['n']:>4}")
    ruled = [f"{one['claim']}: {one['status']}. {one['detail']}" for one in found["verdicts"]]
    return [*tuned(found["tuning"]), *lines, *timed(found["methods"]), *ruled]


_PLACES = {"edge": "at the edge of the grid", "brink": "at or beside one that led nowhere"}
"""Where a value that tuning chose may lie."""


def tuned(tuning: dict[str, Any] | None) -> list[str]:
    """Every value that was tried, and where the best lies."""
    if tuning is None:
        return []
    seeds = ", ".join(map(str, tuning["seeds"]))
    lines = [
        f"tuning of {tuning['option']}, mean sampled accuracy over evaluations (seeds {seeds})"
    ]
    for row in tuning["rows"]:
        outcome = row["error"] or "not finished"
        outcome = f"{row['accuracy']:.2f} %" if row["accuracy"] is not None else outcome
        nowhere = ", led nowhere" if row["nowhere"] else ""
        where = [words for key, words in _PLACES.items() if row["method"] in tuning[key]]
        best = f"  <- {', '.join(['best', *where])}" if row["chosen"] else ""
        lines.append(f"  {row['method']}  {row['value']}  {outcome}{nowhere}{best}")
    if all(row["nowhere"] == len(tuning["seeds"]) for row in tuning["rows"]):
        lines.append(
            "no value improved on the start with any seed: give more batches, or other values"
        )
    return [*lines, ""]

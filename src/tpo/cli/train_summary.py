"""What `tpo train` prints of a run or a comparison that has ended."""

from __future__ import annotations

from typing import Any

from tpo.llm.comparison.time_to_goal import time_to_goal


def failures(result: dict[str, Any]) -> list[str]:
    """Failures in a run that is complete."""
    kinds = ", ".join(f"{kind} {n}" for kind, n in result["reward_failures"].items())
    held_out = sum(row["failures"] for row in result["evaluations"])
    numbers = {
        "completions that could not be scored while training": kinds,
        "and on held-out prompts, where they count as not solved": held_out,
        "steps skipped, their gradient not finite": result["skipped_steps"],
    }
    return [f"{what}: {number}" for what, number in numbers.items() if number]


def summary_lines(summary: dict[str, Any]) -> list[str]:
    """The summary of a comparison: tuning, every metric, when methods reach the goal, and verdicts."""
    rows = summary["table"]["rows"]
    width = 2 + max(len(name) for name in ("method", *(row["method"] for row in rows)))
    lines = [f"{'method':{width}}{'metric':28}{'mean':>12}{'n':>4}"]
    for row in rows:
        mean = f"{row['mean']:.4g}" if row["n"] else ""
        lines.append(f"{row['method']:{width}}{row['metric']:28}{mean:>12}{row['n']:>4}")
    verdicts = [f"{v['claim']}: {v['status']}. {v['detail']}" for v in summary["verdicts"]]
    reached = time_to_goal(summary["methods"])
    return [*tuning_lines(summary["tuning"]), *lines, *reached, *verdicts]


_CAVEATS = {
    "edge": "at the edge of the grid",
    "brink": "at or beside a value that failed or did not improve",
}
"""What to know of a chosen value, by the key of the tuning table that lists its method."""


def tuning_lines(tuning: dict[str, Any] | None) -> list[str]:
    """Every value that was tried with its accuracy, and what to know of the best."""
    if tuning is None:
        return []
    seeds = ", ".join(map(str, tuning["seeds"]))
    lines = [
        f"tuning of {tuning['option']}, mean sampled accuracy over evaluations (seeds {seeds})"
    ]
    for row in tuning["rows"]:
        result = row["error"] or "not finished"
        result = f"{row['accuracy']:.2f} %" if row["accuracy"] is not None else result
        failed = ", did not improve" if row["nowhere"] else ""
        caveats = [text for key, text in _CAVEATS.items() if row["method"] in tuning[key]]
        best = f"  <- {', '.join(['best', *caveats])}" if row["chosen"] else ""
        lines.append(f"  {row['method']}  {row['value']}  {result}{failed}{best}")
    if all(row["nowhere"] == len(tuning["seeds"]) for row in tuning["rows"]):
        lines.append(
            "no value improved on the start with any seed: give more batches, or other values"
        )
    return [*lines, ""]

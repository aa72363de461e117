"""When each method of a comparison reaches the common goal, as the console and the report both say it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


def time_to_goal(methods: Sequence[Mapping[str, Any]]) -> list[str]:
    """A line for each of a summary's `methods`, by its mean curve over seeds; none without a goal.

    Verdicts and the table take each seed's own rollouts instead, which may differ a lot from these.
    """
    lines = []
    for one in methods:
        if one["threshold"] is not None:
            when = "never" if one["rollouts"] is None else f"after {one['rollouts']:.0f} rollouts"
            part = f", {one['ratio']:.2f} of grpo's" if one["ratio"] and not one["baseline"] else ""
            goal = f"{one['threshold']:.1%}"
            lines.append(f"{one['method']} reaches {goal} {when}{part} (mean accuracy over seeds)")
    return lines

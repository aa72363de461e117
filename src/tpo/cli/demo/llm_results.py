"""What `tpo demo --llm` measured: accuracies, and a verdict where the seeds allow one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tpo.stats.significance import LEAST
from tpo.stats.verdicts import OPEN

if TYPE_CHECKING:
    from tpo.llm.comparison.plan import Plan
    from tpo.llm.comparison.run_log import RunLog


class Accuracy:
    """A method's accuracies [seeds] on held-out questions, before and after training."""

    def __init__(self, label: str, logs: Sequence[RunLog]) -> None:
        """From the evaluations of complete runs."""
        self.label = label
        first, last = ([log.evaluations[i] for log in logs] for i in (0, -1))
        self.before = np.array([row["sampled"] for row in first])
        self.sampled = np.array([row["sampled"] for row in last])
        self.greedy = np.array([row["greedy"] for row in last])

    @property
    def cells(self) -> tuple[str, str, str, str]:
        """The row of the table."""
        return (
            self.label,
            f"{self.before.mean():.1%}",
            _mean_and_range(self.sampled),
            _mean_and_range(self.greedy),
        )


def _mean_and_range(x: np.ndarray) -> str:
    low, high = x.min(), x.max()
    spread = f" ({100 * low:.1f} to {100 * high:.1f})" if len(x) > 1 else ""
    return f"{x.mean():.1%}{spread}"


def accuracies(plan: Plan) -> list[Accuracy]:
    """Of every method, in the plan's order."""
    from tpo.llm.comparison.summary import read_run_logs

    return [Accuracy(method.label, logs) for method, logs in read_run_logs(plan).items()]


def print_results(plan: Plan) -> None:
    """The table of both methods."""
    from rich.console import Console
    from rich.table import Table

    over = f"mean of {plan.seeds} seeds (range)" if plan.seeds > 1 else "one seed"
    table = Table(title=f"right on held-out questions, {over}")
    for name in ("method", "samples before", "samples after", "greedy after"):
        table.add_column(name, justify="left" if name == "method" else "right")
    for one in accuracies(plan):
        table.add_row(*one.cells)
    Console().print(table)


def sentences(plan: Plan, summary: Mapping[str, Any]) -> Iterable[str]:
    """The verdicts that the seeds support, and the result in one sentence."""
    recipe, found = plan.recipe, accuracies(plan)
    rollouts = recipe.batches * recipe.prompts * recipe.group_size
    verdicts = [one for one in summary["verdicts"] if one["status"] != OPEN]
    yield from (f"{one['status']}: {one['claim']}. {one['detail']}" for one in verdicts)
    if not verdicts:
        few = plan.seeds < LEAST
        why = (
            f"fewer than {LEAST} seeds"
            if few
            else "no difference is significant at 95%, paired over seeds"
        )
        yield f"No verdict: {why}. --seeds {2 * max(plan.seeds, LEAST)} tells more."
    after = " and ".join(f"{one.sampled.mean():.0%} with {one.label}" for one in found)
    before = f"{found[0].before.mean():.0%}"
    yield f"\nAfter {rollouts:,} rollouts {after} of sampled answers are right; before training {before}."

"""What tuning found: the value of each method that is reported, and the result of every value that was tried.

DIR/tuning/RUN-seedN     each tuning run
DIR/tuning.json          the chosen value of each method, written once
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tpo.llm.comparison.method import MethodSpec
from tpo.llm.comparison.plan import Plan, Run
from tpo.llm.comparison.pool import is_out_of_memory
from tpo.llm.comparison.run_log import BROKEN_FILE, RunLog
from tpo.llm.runs.artifacts import JsonFile
from tpo.storage.files import write_json
from tpo.storage.former_names import current_method

TUNING = JsonFile(
    "tuning.json", {}, "remove it: --resume chooses the values again from the tuning runs"
)
RETRIED = ("Lost", "MemoryError", "OSError", "OutOfMemoryError", BROKEN_FILE)
"""Failures that say nothing about the value, such as a full GPU: the method waits for --resume."""


def tuned_methods(plan: Plan) -> dict[MethodSpec, MethodSpec]:
    """Each method whose value is chosen, with that value; without tuning every method as it is."""
    if plan.tuning is None:
        return {method: method for method in plan.methods}
    option, values = plan.tuning.option, _chosen_values(plan)
    return {m: m.with_option(option, values[m.name]) for m in plan.methods if m.name in values}


def tuning_runs(plan: Plan, method: MethodSpec) -> list[Run]:
    """Every run that tries a value for a method; none without tuning."""
    variants = plan.tuning.variants(method) if plan.tuning else []
    return [run for variant in variants for run in plan.tuning_runs(variant)]


def choose_value(plan: Plan, method: MethodSpec) -> bool:
    """Write down the best value once all are tried; whether the method has one."""
    assert plan.tuning is not None
    values = _chosen_values(plan)
    if method.name in values:
        return True
    logs = {
        variant: [RunLog.read(run) for run in plan.tuning_runs(variant)]
        for variant in plan.tuning.variants(method)
    }
    if any(_must_run(log) for of_variant in logs.values() for log in of_variant):
        return False
    scores = {variant: _score(of_variant) for variant, of_variant in logs.items()}
    known = {variant: score for variant, score in scores.items() if score is not None}
    if not known:
        return False
    best = max(known, key=lambda variant: known[variant])
    value = dict(best.options)[plan.tuning.option]
    write_json(plan.folder / "tuning.json", {**values, method.name: value})
    return True


def _chosen_values(plan: Plan) -> dict[str, Any]:
    """The value of each method that has one, by the method's current name."""
    values = TUNING.read(plan.folder) or {}
    return {current_method(name): value for name, value in values.items()}


def _must_run(log: RunLog) -> bool:
    """Whether a tuning run has no result yet: it has not ended, or failed for a reason other than its value."""
    stopped = log.error_kind in (None, *RETRIED) or is_out_of_memory(log.error or "")
    return log.result is None and stopped


def tuning_table(plan: Plan) -> dict[str, Any] | None:
    """Every value that was tried with its accuracy in %.

    `edge` names the methods whose value is the smallest or largest of the grid. `brink` names those for which a
    run failed or did not improve (`nowhere`) at the chosen value or the next one.
    """
    if plan.tuning is None:
        return None
    tuned = tuned_methods(plan)
    rows = [row for method in plan.methods for row in _rows(plan, method, tuned)]
    numbers = [value for value in plan.tuning.values if isinstance(value, (int, float))]
    ends = (min(numbers), max(numbers)) if numbers else ()
    return {
        "option": plan.tuning.option,
        "seeds": plan.tuning_seeds,
        "batches": plan.tuning.batches or plan.recipe.batches,
        "rows": rows,
        "edge": [r["method"] for r in rows if r["chosen"] and r["value"] in ends],
        "brink": beside_failed_value(rows),
    }


def beside_failed_value(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Methods for which a run failed or did not improve at the chosen value, or at a number beside it.

    With another seed the chosen value may then fail as well.
    """
    found = []
    for name in dict.fromkeys(row["method"] for row in rows):
        of_method = [row for row in rows if row["method"] == name]
        ordered = all(isinstance(row["value"], (int, float)) for row in of_method)
        of_method = sorted(of_method, key=lambda row: row["value"]) if ordered else of_method
        for i, row in enumerate(of_method):
            near = of_method[max(0, i - 1) : i + 2] if ordered else [row]
            if row["chosen"] and any(one["nowhere"] or one["error"] for one in near):
                found.append(name)
    return found


def _rows(
    plan: Plan, method: MethodSpec, tuned: Mapping[MethodSpec, MethodSpec]
) -> list[dict[str, Any]]:
    assert plan.tuning is not None
    rows = []
    for value, variant in zip(plan.tuning.values, plan.tuning.variants(method), strict=True):
        logs = [RunLog.read(run) for run in plan.tuning_runs(variant)]
        score = _score(logs)
        rows.append(
            {
                "method": method.name,
                "label": method.label,
                "value": value,
                "accuracy": None if score is None else 100 * score,
                "nowhere": sum(log.result is not None and not log.improved for log in logs),
                "error": next((log.error for log in logs if log.error), None),
                "chosen": tuned.get(method) == variant,
            }
        )
    return rows


def _score(logs: list[RunLog]) -> float | None:
    """The mean accuracy over seeds and evaluations; None where a seed is missing."""
    if any(log.result is None for log in logs):
        return None
    return float(np.mean([log.mean_accuracy for log in logs]))

"""What tuning found: the value of each method that is reported, and everything that was tried for it.

DIR/tuning/RUN-seedN     each run that was tried
DIR/tuning.json          the value of each method, settled once
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tpo.llm.comparison.method import Method
from tpo.llm.comparison.plan import Plan, Run
from tpo.llm.comparison.pool import no_memory
from tpo.llm.comparison.run_log import Record
from tpo.storage.files import read_json, write_json
from tpo.storage.former_names import current_method

TRY_AGAIN = ("Lost", "MemoryError", "OSError", "OutOfMemoryError")
"""Failures that say nothing about the value, as a full GPU does not: the method waits for --resume."""


def settled(plan: Plan) -> dict[Method, Method]:
    """Each method that has its value, with it; without tuning every method as it is."""
    if plan.tuning is None:
        return {method: method for method in plan.methods}
    option, noted = plan.tuning.option, _noted(plan)
    return {m: m.with_option(option, noted[m.name]) for m in plan.methods if m.name in noted}


def trials(plan: Plan, method: Method) -> list[Run]:
    """Every run that tries a value for a method; none without tuning."""
    tried = plan.tuning.tried(method) if plan.tuning else []
    return [run for one in tried for run in plan.trials(one)]


def settle(plan: Plan, method: Method) -> bool:
    """Note the best value once all are tried; whether the method has one."""
    assert plan.tuning is not None
    noted = _noted(plan)
    if method.name in noted:
        return True
    tried = {m: [Record.read(run) for run in plan.trials(m)] for m in plan.tuning.tried(method)}
    if any(map(_waits, (one for x in tried.values() for one in x))):
        return False
    scores = {m: score for m, x in tried.items() if (score := _score(x)) is not None}
    if not scores:
        return False
    best = max(scores, key=lambda m: scores[m])
    value = dict(best.options)[plan.tuning.option]
    write_json(plan.folder / "tuning.json", {**noted, method.name: value})
    return True


def _noted(plan: Plan) -> dict[str, Any]:
    """The value of each method that is settled, by the method's current name."""
    noted = read_json(plan.folder / "tuning.json") or {}
    return {current_method(name): value for name, value in noted.items()}


def _waits(one: Record) -> bool:
    """Whether a run that is not complete says nothing about its value: it has not ended, or not by itself."""
    stopped = one.kind in (None, *TRY_AGAIN) or no_memory(one.error or "")
    return one.result is None and stopped


def table(plan: Plan) -> dict[str, Any] | None:
    """Every value that was tried with its outcome, in %.

    `edge` names the methods whose value is the first or last of the grid, `brink` those that got nowhere with a
    seed at their value or the next one.
    """
    if plan.tuning is None:
        return None
    chosen = settled(plan)
    rows = [row for method in plan.methods for row in _rows(plan, method, chosen)]
    numbers = [value for value in plan.tuning.values if isinstance(value, (int, float))]
    ends = (min(numbers), max(numbers)) if numbers else ()
    return {
        "option": plan.tuning.option,
        "seeds": plan.trial_seeds,
        "batches": plan.tuning.batches or plan.recipe.batches,
        "rows": rows,
        "edge": [r["method"] for r in rows if r["chosen"] and r["value"] in ends],
        "brink": brink(rows),
    }


def brink(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Methods whose chosen value, or a number beside it, led a seed nowhere: with another the chosen may."""
    found = []
    for name in dict.fromkeys(row["method"] for row in rows):
        own = [row for row in rows if row["method"] == name]
        ordered = all(isinstance(row["value"], (int, float)) for row in own)
        own = sorted(own, key=lambda row: row["value"]) if ordered else own
        for i, row in enumerate(own):
            near = own[max(0, i - 1) : i + 2] if ordered else [row]
            if row["chosen"] and any(one["nowhere"] or one["error"] for one in near):
                found.append(name)
    return found


def _rows(plan: Plan, method: Method, chosen: Mapping[Method, Method]) -> list[dict[str, Any]]:
    assert plan.tuning is not None
    found = []
    for value, tried in zip(plan.tuning.values, plan.tuning.tried(method), strict=True):
        records = [Record.read(run) for run in plan.trials(tried)]
        score = _score(records)
        found.append(
            {
                "method": method.name,
                "label": method.label,
                "value": value,
                "accuracy": None if score is None else 100 * score,
                "nowhere": sum(one.result is not None and not one.learned for one in records),
                "error": next((one.error for one in records if one.error), None),
                "chosen": chosen.get(method) == tried,
            }
        )
    return found


def _score(records: list[Record]) -> float | None:
    """The mean accuracy over seeds and evaluations; None where a seed is missing."""
    if any(one.result is None for one in records):
        return None
    return float(np.mean([one.mean_accuracy for one in records]))

"""The summary of a comparison, complete or not, as the report takes it; and its curves over rollouts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tpo.llm.comparison.method import MethodSpec
from tpo.llm.comparison.metrics import MethodMetrics, method_metrics, table_rows, verdicts
from tpo.llm.comparison.plan import COMPARISON, Plan, read_plan
from tpo.llm.comparison.run_log import MEASURES, RunLog, RunLogs, curve
from tpo.llm.comparison.single_run import read_single_run
from tpo.llm.comparison.time_to_goal import time_to_goal
from tpo.llm.comparison.tuning_results import tuned_methods, tuning_runs, tuning_table
from tpo.stats.intervals import interval, iqm, standard_error
from tpo.storage import npz
from tpo.storage.files import write_bytes

EVALUATED = {
    "sampled": "held-out accuracy of samples",
    "greedy": "held-out greedy accuracy",
    "pass_at_k": "held-out pass@k",
    "kl": "KL from the start",
}
"""Curves of the evaluations, and their titles."""
MAX_NAMED = 4
"""A sentence names at most this many methods."""
MAX_POINTS = 200
"""A curve of the summary has at most this many points."""
TUNING_CAVEATS = {
    "edge": "At the edge of what was tried, so that a better one may lie beyond",
    "brink": "At or beside a value with which a seed failed or did not improve, as others may",
}
"""What to know of a chosen value, by the key of the tuning table that lists its method."""
TABLE = ("method", "metric", "mean", "median", "iqm", "iqm_low", "iqm_high", "n")


def read_run_logs(plan: Plan) -> dict[MethodSpec, list[RunLog]]:
    """Every seed of every method, with the value that tuning chose for it."""
    tuned = tuned_methods(plan)
    return {
        method: [
            RunLog.read(plan.run(method, seed, tuned.get(method))) for seed in plan.reported_seeds
        ]
        for method in plan.methods
    }


def write_curves(plan: Plan) -> None:
    """curves.npz, whole or not at all."""
    arrays = {
        f"{method.folder}/{measure}": np.stack(
            [curve(log.rows, measure, log.run.recipe) for log in logs]
        )
        for method, logs in read_run_logs(plan).items()
        for measure in MEASURES
    }
    write_bytes(plan.folder / "curves.npz", npz.to_bytes(arrays))


def summary(folder: str | Path) -> dict[str, Any]:
    """The comparison or the single run in a folder as the report's schema has it, complete or not."""
    alone = not (Path(folder) / COMPARISON.name).is_file()
    plan = read_single_run(Path(folder)) if alone else read_plan(Path(folder))
    run_logs, tuning_logs = read_run_logs(plan), _read_tuning_logs(plan)
    metrics, tuning = method_metrics(run_logs), tuning_table(plan)
    reported = [log for logs in run_logs.values() for log in logs]
    tuned = tuned_methods(plan)
    untuned = [log for m in plan.methods if m not in tuned for log in tuning_logs[m]]
    failures = _failures([*untuned, *reported])
    results = [log.result for log in reported if log.result is not None]
    return {
        "name": "llm-run" if alone else "llm-comparison",
        "title": f"{Path(plan.recipe.model).name} on {plan.recipe.task}",
        "source": "tpo train" if alone else "tpo train --compare",
        "about": _about(plan, metrics, tuning, failures, reported),
        "command": plan.command,
        "scale": "custom",
        "settings": _settings(plan),
        "x": {"label": "rollouts"},
        "y": {"label": "accuracy", "log": False},
        "panels": _panels(plan, run_logs),
        "table": {
            "columns": list(TABLE),
            "rows": [row for one in metrics for row in table_rows(one)],
        },
        "verdicts": verdicts(plan, metrics),
        "methods": [one.to_dict() for one in metrics],
        "tuning": tuning,
        "failures": failures,
        "provenance": _provenance(results) | {"seeds": plan.reported_seeds},
        "cost": {
            "seconds": _seconds([*run_logs.values(), *tuning_logs.values()]),
            "device": _provenance(results).get("device", ""),
        },
        "progress": {"cells_done": len(results), "cells": len(reported)},
    }


def _read_tuning_logs(plan: Plan) -> dict[MethodSpec, list[RunLog]]:
    return {method: list(map(RunLog.read, tuning_runs(plan, method))) for method in plan.methods}


def _failures(logs: Iterable[RunLog]) -> list[dict[str, Any]]:
    return [{"run": log.run.title, "error": log.error} for log in logs if log.error]


def _settings(plan: Plan) -> dict[str, Any]:
    """The options of the shared recipe that are set, and are the same for all methods."""
    not_shared = ("steps", "objective", plan.tuning.option if plan.tuning else None)
    return {
        k: v
        for k, v in plan.to_dict()["recipe"].items()
        if v not in (None, {}, "") and k not in not_shared
    }


def _seconds(logs: Iterable[Sequence[RunLog]]) -> float:
    """Of all complete runs."""
    return sum(log.result["seconds"] for of_method in logs for log in of_method if log.result)


def _about(
    plan: Plan,
    metrics: Sequence[MethodMetrics],
    tuning: Mapping[str, Any] | None,
    failures: Sequence[Mapping[str, Any]],
    reported: Sequence[RunLog],
) -> str:
    """The comparison in a few sentences."""
    sentences = [
        *_design(plan),
        *(f"{line}." for line in time_to_goal([one.to_dict() for one in metrics])),
        *_tuning_sentences(tuning),
        *(f"Failed: {one['run']} ({one['error']})." for one in failures),
        *(f"{log.run.title}: {'; '.join(log.problems)}." for log in reported if log.problems),
    ]
    return " ".join(sentences)


def _design(plan: Plan) -> Iterator[str]:
    """What is asked, what is equal for all, and what is measured."""
    recipe = plan.recipe
    rollouts = recipe.batches * recipe.prompts * recipe.group_size
    names = [method.name for method in plan.methods]
    methods = ", ".join(names) if len(names) <= MAX_NAMED else f"{len(names)} methods"
    if len(names) > 1:
        yield f"Which method learns {recipe.task} with the fewest rollouts, and which ends highest?"
    shared = " with the same prompts and seeds" if len(names) * plan.seeds > 1 else ""
    yield (
        f"{methods}{shared}, {rollouts:,} rollouts "
        f"each: {recipe.batches} batches of {recipe.prompts} x {recipe.group_size}."
    )
    yield (
        "Accuracy is measured on held-out prompts, of samples and of greedy answers; train score is the mean "
        "of at most the last 100 batches."
    )


def _tuning_sentences(tuning: Mapping[str, Any] | None) -> list[str]:
    if tuning is None:
        return []
    chosen = [f"{row['method']} {row['value']}" for row in tuning["rows"] if row["chosen"]]
    values = f": {', '.join(chosen)}" if len(chosen) <= MAX_NAMED else ""
    return [
        f"{tuning['option'].capitalize()} is each method's best on other seeds{values}.",
        *(
            f"{caveat}: {', '.join(names)}."
            for key, caveat in TUNING_CAVEATS.items()
            if (names := tuning[key])
        ),
    ]


def _provenance(results: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """That of the first run, with the commits of all."""
    runs = [result["provenance"] for result in results]
    if not runs:
        return {}
    commits = dict.fromkeys(run["commit"] for run in runs if run.get("commit"))
    return runs[0] | ({"commit": ", ".join(commits)} if commits else {})


def _panels(plan: Plan, run_logs: RunLogs) -> list[dict[str, Any]]:
    evaluated = [
        _panel(title, name, [_evaluated(method, name, logs) for method, logs in run_logs.items()])
        for name, title in EVALUATED.items()
    ]
    logged = [
        _panel(
            measure,
            measure,
            [_logged(plan, method, measure, logs) for method, logs in run_logs.items()],
        )
        for measure in MEASURES
    ]
    return [panel for panel in evaluated if any(len(s["x"]) > 1 for s in panel["series"])] + logged


def _panel(title: str, measure: str, series: list[dict[str, Any]]) -> dict[str, Any]:
    y = {"label": title, "log": False}
    return {"title": title, "coords": {"measure": measure}, "y": y, "series": series}


def _evaluated(method: MethodSpec, name: str, logs: Sequence[RunLog]) -> dict[str, Any]:
    begun = [log for log in logs if log.evaluations]
    x = sorted({n for log in begun for n in log.rollouts.tolist()})
    values = np.full((len(begun), len(x)), np.nan)
    for i, log in enumerate(begun):
        for n, row in zip(log.rollouts.tolist(), log.evaluations, strict=True):
            if row.get(name) is not None:
                values[i, x.index(n)] = row[name]
    series = _series(method, np.array(x), values, logs)
    seeds = np.array(series["seeds"]).reshape(len(begun), len(series["x"]))
    intervals = [interval([column]) if len(column) > 1 else (None, None) for column in seeds.T]
    return series | {
        "iqm": iqm(seeds.T).tolist() if len(begun) else [],
        "iqm_low": [low for low, _ in intervals],
        "iqm_high": [high for _, high in intervals],
    }


def _logged(plan: Plan, method: MethodSpec, measure: str, logs: Sequence[RunLog]) -> dict[str, Any]:
    recipe = plan.recipe
    begun = [log for log in logs if log.rows]
    values = np.array([curve(log.rows, measure, log.run.recipe) for log in begun])
    x = np.arange(1, recipe.batches + 1) * recipe.prompts * recipe.group_size
    return _series(method, x, values.reshape(len(begun), recipe.batches), logs)


def _series(
    method: MethodSpec, x: np.ndarray, values: np.ndarray, logs: Sequence[RunLog]
) -> dict[str, Any]:
    """The points at which every seed that has begun has a value; values: [seeds that have begun, x]."""
    n = len(values)
    known = np.flatnonzero(~np.isnan(values).any(0)) if n else np.zeros(0, int)
    kept = known[:: max(1, -(-len(known) // MAX_POINTS))]
    thinned = values[:, kept]
    return {
        "method": method.name,
        "label": method.label,
        "x": x[kept].tolist(),
        "mean": thinned.mean(0).tolist() if n else [],
        "se": standard_error(thinned).tolist() if n else [],
        "median": np.median(thinned, 0).tolist() if n else [],
        "seeds": thinned.tolist(),
        "n": n,
        "planned": len(logs),
        "done": all(log.result is not None for log in logs),
    }

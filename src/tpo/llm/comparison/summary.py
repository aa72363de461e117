"""What a comparison found, as far as it got: curves over rollouts, and the summary that the report takes."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tpo.llm.comparison.method import Method
from tpo.llm.comparison.metrics import rows, standings, verdicts
from tpo.llm.comparison.plan import Plan, read
from tpo.llm.comparison.run_log import MEASURES, Record, Records, curve
from tpo.llm.comparison.time_to_goal import timed
from tpo.llm.comparison.tuning_results import settled, table, trials
from tpo.stats.intervals import interval, iqm, standard_error
from tpo.storage.files import write_bytes

EVALUATED = {
    "sampled": "held-out accuracy of samples",
    "greedy": "held-out greedy accuracy",
    "pass_at_k": "held-out pass@k",
    "kl": "KL from the start",
}
"""Curves of the evaluations."""
NAMED = 4
"""At most so many methods are named in a sentence."""
POINTS = 200
"""At most so many points of a curve go into the summary."""
BEWARE = {
    "edge": "At the edge of what was tried, so that a better one may lie beyond",
    "brink": "At or beside a value with which a seed failed or did not improve, as others may",
}
"""What tuning says of the values that it chose, where it does."""
TABLE = ("method", "metric", "mean", "median", "iqm", "iqm_low", "iqm_high", "n")


def records(plan: Plan) -> dict[Method, list[Record]]:
    """Every seed of every method, with the value that tuning found for it."""
    own = settled(plan)
    return {
        method: [Record.read(plan.run(method, seed, own.get(method))) for seed in plan.reported]
        for method in plan.methods
    }


def write_curves(plan: Plan) -> None:
    """curves.npz, whole or not at all."""
    arrays = {
        f"{method.folder}/{measure}": np.stack(
            [curve(one.log, measure, one.run.recipe) for one in found]
        )
        for method, found in records(plan).items()
        for measure in MEASURES
    }
    content = io.BytesIO()
    np.savez(content, **arrays)  # type: ignore[arg-type]
    write_bytes(plan.folder / "curves.npz", content.getbuffer())


def summary(folder: str | Path) -> dict[str, Any]:
    """The comparison in a folder as the report's schema has it, complete or not."""
    plan = read(Path(folder))
    recipe, found = plan.recipe, records(plan)
    tuning = table(plan)
    everyone = [one for group in found.values() for one in group]
    complete = [one.result for one in everyone if one.result is not None]
    standing = standings(found)
    tried = {method: list(map(Record.read, trials(plan, method))) for method in plan.methods}
    lost = [one for method, group in tried.items() if method not in settled(plan) for one in group]
    failures = [
        {"run": one.run.title, "error": one.error} for one in [*lost, *everyone] if one.error
    ]
    return {
        "name": "llm-comparison",
        "title": f"{Path(recipe.model).name} on {recipe.task}",
        "source": "tpo train --compare",
        "about": " ".join(
            [
                _about(plan),
                *(f"{line}." for line in timed([one.plain() for one in standing])),
                *_tuned(tuning),
                *_failed(failures),
                *_troubled(everyone),
            ]
        ),
        "command": plan.command,
        "scale": "custom",
        "settings": {
            k: v
            for k, v in plan.plain()["recipe"].items()
            if v not in (None, {}, "")
            and k not in ("steps", "objective", (tuning or {}).get("option"))
        },
        "x": {"label": "rollouts"},
        "y": {"label": "accuracy", "log": False},
        "panels": _panels(plan, found),
        "table": {"columns": list(TABLE), "rows": [row for one in standing for row in rows(one)]},
        "verdicts": verdicts(plan, standing),
        "methods": [one.plain() for one in standing],
        "tuning": tuning,
        "failures": failures,
        "provenance": _provenance(complete) | {"seeds": plan.reported},
        "cost": {
            "seconds": sum(
                one.result["seconds"]
                for group in (*found.values(), *tried.values())
                for one in group
                if one.result
            ),
            "device": _provenance(complete).get("device", ""),
        },
        "progress": {"cells_done": len(complete), "cells": len(everyone)},
    }


def _about(plan: Plan) -> str:
    recipe = plan.recipe
    rollouts = recipe.batches * recipe.prompts * recipe.group_size
    return (
        f"{_named([m.name for m in plan.methods])} with the same prompts and seeds, {rollouts} rollouts "
        f"each: {recipe.batches} batches of {recipe.prompts} x {recipe.group_size}. Final accuracy is "
        "greedy, on held-out prompts; train score is the mean of at most the last 100 batches."
    )


def _named(names: Sequence[str]) -> str:
    """Few by name; more than a line of them stand in the table anyway."""
    return ", ".join(names) if len(names) <= NAMED else f"{len(names)} methods"


def _provenance(results: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """That of the first run, with the commits of all."""
    known = [one["provenance"] for one in results]
    if not known:
        return {}
    commits = dict.fromkeys(one["commit"] for one in known if one.get("commit"))
    return known[0] | ({"commit": ", ".join(commits)} if commits else {})


def _tuned(tuning: Mapping[str, Any] | None) -> list[str]:
    if tuning is None:
        return []
    chosen = [f"{row['method']} {row['value']}" for row in tuning["rows"] if row["chosen"]]
    values = f": {', '.join(chosen)}" if len(chosen) <= NAMED else ""
    return [
        f"{tuning['option'].capitalize()} is each method's best on other seeds{values}.",
        *(
            f"{words}: {', '.join(names)}."
            for key, words in BEWARE.items()
            if (names := tuning[key])
        ),
    ]


def _failed(failures: Sequence[Mapping[str, Any]]) -> list[str]:
    return [f"Failed: {one['run']} ({one['error']})." for one in failures]


def _troubled(everyone: Sequence[Record]) -> list[str]:
    return [f"{one.run.title}: {'; '.join(one.troubles)}." for one in everyone if one.troubles]


def _panels(plan: Plan, found: Records) -> list[dict[str, Any]]:
    held_out = [
        _panel(title, name, [_evaluated(method, name, group) for method, group in found.items()])
        for name, title in EVALUATED.items()
    ]  # fmt: skip
    logged = [
        _panel(measure, measure, [_logged(plan, method, measure, group) for method, group in found.items()])
        for measure in MEASURES
    ]  # fmt: skip
    return [panel for panel in held_out if any(len(s["x"]) > 1 for s in panel["series"])] + logged


def _panel(title: str, measure: str, series: list[dict[str, Any]]) -> dict[str, Any]:
    y = {"label": title, "log": False}
    return {"title": title, "coords": {"measure": measure}, "y": y, "series": series}


def _evaluated(method: Method, name: str, group: Sequence[Record]) -> dict[str, Any]:
    begun = [one for one in group if one.evaluations]
    x = sorted({n for one in begun for n in one.rollouts.tolist()})
    values = np.full((len(begun), len(x)), np.nan)
    for i, one in enumerate(begun):
        for n, row in zip(one.rollouts.tolist(), one.evaluations, strict=True):
            if row.get(name) is not None:
                values[i, x.index(n)] = row[name]
    found = _series(method, np.array(x), values, group)
    seeds = np.array(found["seeds"]).reshape(len(begun), len(found["x"]))
    ends = [interval([column]) if len(column) > 1 else (None, None) for column in seeds.T]
    return found | {
        "iqm": iqm(seeds.T).tolist() if len(begun) else [],
        "iqm_low": [low for low, _ in ends],
        "iqm_high": [high for _, high in ends],
    }


def _logged(plan: Plan, method: Method, measure: str, group: Sequence[Record]) -> dict[str, Any]:
    recipe = plan.recipe
    begun = [one for one in group if one.log]
    values = np.array([curve(one.log, measure, one.run.recipe) for one in begun])
    x = np.arange(1, recipe.batches + 1) * recipe.prompts * recipe.group_size
    return _series(method, x, values.reshape(len(begun), recipe.batches), group)


def _series(
    method: Method, x: np.ndarray, values: np.ndarray, group: Sequence[Record]
) -> dict[str, Any]:
    """Where every seed that has begun has a value."""
    n = len(values)
    reached = np.flatnonzero(~np.isnan(values).any(0)) if n else np.zeros(0, int)
    kept = reached[:: max(1, -(-len(reached) // POINTS))]
    thin = values[:, kept]
    return {
        "method": method.name,
        "label": method.label,
        "x": x[kept].tolist(),
        "mean": thin.mean(0).tolist() if n else [],
        "se": standard_error(thin).tolist() if n else [],
        "median": np.median(thin, 0).tolist() if n else [],
        "seeds": thin.tolist(),
        "n": n,
        "planned": len(group),
        "done": all(one.result is not None for one in group),
    }

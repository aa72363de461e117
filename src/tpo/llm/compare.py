"""Several objectives on the same prompts and seeds, and their comparison as plain files.

DIR/comparison.json      what is compared, and the summary in the report's schema
DIR/report.html          the comparison as a page, and as report.md
DIR/curves.npz           METHOD/MEASURE [seeds, steps] for the measures of MEASURES
DIR/METHOD-seedN         each run, as `train` leaves it
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tpo.llm.files import read_lines
from tpo.llm.recipe import Recipe, changed, flags, is_main, variant
from tpo.results.files import read_json, write_bytes, write_json
from tpo.results.report import write_studies
from tpo.results.statistics import interval, iqm

MEASURES = ("reward", "entropy", "completions/mean_length", "groups/zero_variance")
POINTS = 200
"""At most so many points of a curve go into the summary."""

TABLE = ("method", "metric", "mean", "median", "iqm", "iqm_low", "iqm_high", "best", "n")


def comparison(
    recipe: Recipe, objectives: Sequence[str], seeds: int = 1, resume: bool = False
) -> dict[str, Any]:
    """Train every objective with seeds recipe.seed, recipe.seed + 1, ...; return the summary.

    Runs that are complete are not repeated, so the same call goes on where it stopped; with `resume` there may
    be more seeds or objectives than before.
    """
    if len(set(objectives)) < 2:
        raise ValueError(
            f"compare holds {', '.join(objectives)}: give two or more, such as tpo,grpo"
        )
    if seeds < 1:
        raise ValueError(f"seeds is {seeds}, expected at least 1")
    from tpo.llm.train import train

    folder = Path(recipe.out)
    for name in objectives:
        variant(recipe, name, recipe.seed).config()  # all of them, before the first is trained
    plan: dict[str, Any] = {
        "objectives": list(objectives),
        "seeds": [recipe.seed + i for i in range(seeds)],
        "recipe": {k: v for k, v in recipe.plain().items() if k != "out"},
    }
    before = read_json(folder / "comparison.json") if is_main() else None
    if before is not None and not resume:
        raise ValueError(
            f"{folder} holds a comparison already: add --resume to go on, or choose another --out"
        )
    other = changed(before["plan"]["recipe"], plan["recipe"]) if before is not None else []
    if other:
        raise ValueError(
            f"{folder} holds a comparison with another {', '.join(other)}: give the same, or another --out"
        )
    if is_main():
        write_json(folder / "comparison.json", {"plan": plan})
    for seed in plan["seeds"]:
        for name in objectives:
            one = variant(recipe, name, seed)
            train(one, resume=(Path(one.out) / "recipe.json").exists())
            if is_main():
                write_curves(folder, plan)
    found = summary(folder)
    if is_main():
        write_json(folder / "comparison.json", {"plan": plan, "summary": found})
        write_studies([found], folder / "report.html")
    return found


def runs(folder: Path, name: str, seeds: Sequence[int]) -> list[list[dict[str, Any]]]:
    """The log of each seed of an objective, as far as it got."""
    return [read_lines(folder / f"{name}-seed{seed}" / "log.jsonl") for seed in seeds]


def curve(rows: list[dict[str, Any]], measure: str, steps: int) -> np.ndarray:
    """[steps] a measure over the steps; where a step has none the last one stands, NaN before the first."""
    found = np.full(steps, np.nan)
    for row in rows:
        if isinstance(row.get(measure), (int, float)) and 0 < row["step"] <= steps:
            found[row["step"] - 1] = row[measure]
    last = rows[-1]["step"] if rows else 0
    for i in range(1, min(last, steps)):
        if np.isnan(found[i]):
            found[i] = found[i - 1]
    return found


def write_curves(folder: Path, plan: dict[str, Any]) -> None:
    """curves.npz, whole or not at all."""
    steps = plan["recipe"]["steps"]
    arrays = {
        f"{name}/{measure}": np.stack(
            [curve(rows, measure, steps) for rows in runs(folder, name, plan["seeds"])]
        )
        for name in plan["objectives"]
        for measure in MEASURES
    }
    content = io.BytesIO()
    np.savez(content, **arrays)  # type: ignore[arg-type]
    write_bytes(folder / "curves.npz", content.getbuffer())


def summary(folder: str | Path) -> dict[str, Any]:
    """The comparison in a folder as the report's schema has it, complete or not."""
    folder = Path(folder)
    noted = read_json(folder / "comparison.json")
    if noted is None:
        raise ValueError(
            f"{folder} holds no comparison: run tpo train --compare tpo,grpo --out {folder}"
        )
    plan = noted["plan"]
    recipe, seeds, names = plan["recipe"], plan["seeds"], plan["objectives"]
    results = {
        n: [read_json(folder / f"{n}-seed{s}" / "result.json") for s in seeds] for n in names
    }
    complete = [r for rows in results.values() for r in rows if r is not None]
    return {
        "name": "llm-comparison",
        "title": f"{Path(recipe['model']).name} on {recipe['task']}",
        "source": "tpo train --compare",
        "about": f"{', '.join(names)} with the same prompts and seeds, {recipe['steps']} optimiser steps. "
        "Final accuracy is greedy, on held-out prompts; train score is the mean of the last 100 steps.",
        "command": _command(plan),
        "scale": "custom",
        "settings": {k: v for k, v in recipe.items() if v not in (None, {}, "")},
        "x": {"label": "step"},
        "y": {"label": "reward", "log": False},
        "panels": [_panel(folder, plan, measure, results) for measure in MEASURES],
        "table": {"columns": list(TABLE), "rows": _rows(folder, plan, results)},
        "verdicts": [],
        "provenance": complete[0]["provenance"] | {"seeds": seeds}
        if complete
        else {"seeds": seeds},
        "cost": {
            "seconds": sum(r["seconds"] for r in complete),
            "device": complete[0]["provenance"]["device"] if complete else "",
        },
        "progress": {"cells_done": len(complete), "cells": len(names) * len(seeds)},
    }


def _panel(
    folder: Path, plan: dict[str, Any], measure: str, results: dict[str, list[Any]]
) -> dict[str, Any]:
    return {
        "title": measure,
        "coords": {"measure": measure},
        "y": {"label": measure, "log": False},
        "series": [
            _series(folder, plan, name, measure, results[name]) for name in plan["objectives"]
        ],
    }


def _series(
    folder: Path, plan: dict[str, Any], name: str, measure: str, results: list[Any]
) -> dict[str, Any]:
    steps, seeds = plan["recipe"]["steps"], plan["seeds"]
    all_rows = [rows for rows in runs(folder, name, seeds) if rows]
    curves = np.array([curve(rows, measure, steps) for rows in all_rows]).reshape(-1, steps)
    reached = np.flatnonzero(~np.isnan(curves).any(0)) if len(curves) else np.zeros(0, int)
    kept = reached[:: max(1, -(-len(reached) // POINTS))]
    thin = curves[:, kept]
    n = len(thin)
    se = thin.std(0, ddof=1) / np.sqrt(n) if n > 1 else np.zeros(len(kept))
    return {
        "method": name,
        "label": name.upper() if len(name) < 5 else name,
        "x": (kept + 1).tolist(),
        "mean": thin.mean(0).tolist() if n else [],
        "se": se.tolist(),
        "median": np.median(thin, 0).tolist() if n else [],
        "seeds": thin.tolist(),
        "n": n,
        "planned": len(seeds),
        "done": all(r is not None for r in results),
    }


def _rows(
    folder: Path, plan: dict[str, Any], results: dict[str, list[Any]]
) -> list[dict[str, Any]]:
    """Of held-out prompts at the end, greedy accuracy and pass@k; the mean reward over the last 100 steps."""
    rows = []
    for name in plan["objectives"]:
        ends = [r["evaluations"][-1] for r in results[name] if r is not None]
        k = plan["recipe"]["eval_samples"]
        for metric, key in (("final accuracy %", "greedy"), (f"pass@{k} %", "pass_at_k")):
            rows.append(_row(name, metric, np.array([100 * e[key] for e in ends])))
        steps = plan["recipe"]["steps"]
        rewards = [curve(r, "reward", steps) for r in runs(folder, name, plan["seeds"]) if r]
        last = np.array([np.nanmean(x[-100:]) for x in rewards if not np.isnan(x).all()])
        rows.append(_row(name, "train score", last))
    return rows


def _row(name: str, metric: str, values: np.ndarray) -> dict[str, Any]:
    row: dict[str, Any] = {"coords": {}, "method": name, "metric": metric, "published": None}
    if not len(values):
        return {**row, "n": 0}
    low, high = interval([values]) if len(values) > 1 else (None, None)
    return row | {
        "mean": float(values.mean()),
        "median": float(np.median(values)),
        "iqm": float(iqm(values)),
        "iqm_low": low,
        "iqm_high": high,
        "best": float(values.max()),
        "n": len(values),
        "values": values.tolist(),
    }


def _command(plan: dict[str, Any]) -> str:
    seeds = f" --seeds {len(plan['seeds'])}" if len(plan["seeds"]) > 1 else ""
    own = flags(Recipe(**plan["recipe"]))
    return f"tpo train {own} --compare {','.join(plan['objectives'])}{seeds}"

"""Comparisons of language models, as `tpo train --compare DIR` made them: one JSON file each in FOLDER/llm.

A file holds the summary of a comparison, with numbers rounded to a few digits. Older files use former names of
options; `read` gives the current ones.

Every statistic of a file follows from the seeds' values in it, to the last digit (`recomputed`).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tpo.declarations.published import Published
from tpo.reports.html import page
from tpo.reports.markdown import report_page
from tpo.reports.page_data import plain
from tpo.reports.tables import Ours
from tpo.stats.intervals import interval, iqm, standard_error
from tpo.storage.files import read_json, write_text
from tpo.storage.former_names import (
    FORMER_OPTIONS,
    current_command,
    current_method,
    current_options,
)
from tpo.storage.numbers import plain as rounded

MODELS = {"DeepSeek-R1-Distill-Qwen-1.5B": "R1-Distill-1.5B"}
TASKS = {"gsm8k": "GSM8K", "gym:graph_color": "graph_color"}
"""The paper's names for tasks and models."""
ROUNDED = 1.1e-4
"""Relative: more than one unit of the last of five digits, by which two roundings of a number may differ."""
ACCURACIES = {"final sampled accuracy %": "sampled", "final accuracy %": "greedy"}
"""Rows of the table whose values are the last points of a panel; so are those of pass@k."""


def is_comparison(folder: str | Path) -> bool:
    """Whether this is a folder of `tpo train --compare`."""
    return (Path(folder) / "comparison.json").is_file()


def is_single_run(folder: str | Path) -> bool:
    """Whether this is a folder of `tpo train` without --compare."""
    return (Path(folder) / "recipe.json").is_file()


def keep(folder: Path, summary: Mapping[str, Any], name: str) -> Path:
    """Write a finished comparison to the evidence; it replaces an earlier one of the same name."""
    kept = text(recomputed(plain(summary)))
    for word in (summary["settings"]["model"], summary["settings"]["task"].removeprefix("gsm8k:")):
        if word[:1] in "./~":  # a path on the machine of the run
            kept = kept.replace(word, Path(word).name)
    path = folder / "llm" / f"{name}.json"
    write_text(path, kept)
    return path


def text(summary: Mapping[str, Any]) -> str:
    """The content of a comparison's file."""
    return json.dumps(summary, separators=(",", ":")) + "\n"


def checked(folder: Path) -> dict[Path, dict[str, Any]]:
    """Every file of the evidence, its statistics computed again from the seeds' values."""
    found = {}
    for path in sorted((folder / "llm").glob("*.json")):
        try:
            found[path] = recomputed(read_json(path))
        except (AttributeError, LookupError, TypeError, ValueError) as error:
            raise ValueError(
                f"{path} is damaged ({type(error).__name__}: {error}): restore the file"
            ) from error
    return found


def read(folder: Path) -> dict[str, dict[str, Any]]:
    """Every comparison in the evidence, by name, with current names of options."""
    return {path.stem: current(read_json(path)) for path in sorted((folder / "llm").glob("*.json"))}


def read_kept(path: Path) -> dict[str, Any]:
    """The comparison in a file of the evidence; an error that names the file if it is none, or damaged.

    It is shown once, to find what is missing or of another type wherever it is.
    """
    found = read_json(path)
    if not isinstance(found, dict) or not {"panels", "settings", "table"} <= set(found):
        raise ValueError(
            f"{path} holds no comparison of language models: give a file of docs/evidence/llm, or a folder"
        )
    try:
        summary = current(found)
        json.dumps(summary, allow_nan=False)
        page.report([summary])
        report_page.report([summary])
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise ValueError(
            f"{path} is damaged ({type(error).__name__}: {error}): restore the file"
        ) from error
    return summary


def current(summary: Mapping[str, Any]) -> dict[str, Any]:
    """The summary with current names of options in its settings, methods, labels, claims and command."""
    found: dict[str, Any] = _renamed(summary)
    found["settings"] = current_options(found["settings"])
    found["command"] = current_command(found["command"])
    if tuning := found.get("tuning"):
        option = tuning["option"]
        found["tuning"] = {**tuning, "option": FORMER_OPTIONS.get(option, option)}
    return found


def _renamed(value: Any) -> Any:
    """Every text in it with current names of options."""
    if isinstance(value, str):
        return current_method(value)
    if isinstance(value, Mapping):
        return {key: _renamed(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_renamed(one) for one in value]
    return value


def row(number: Published, kept: Iterable[Mapping[str, Any]]) -> dict[str, Any] | None:
    """The row of a table for a published number; None if no comparison has it."""

    for summary in kept:
        if _place(summary["settings"]) != dict(number.coords):
            continue
        for found in summary["table"]["rows"]:
            if (found["method"], found["metric"]) == (number.method, number.metric) and found["n"]:
                ours = Ours.percent(np.array(found["values"]) / 100).columns(found["n"], number)
                own = {"coords": dict(number.coords), "method": number.method.upper()}
                return {**found, **own, "published": number.value, **ours}
    return None


def _place(settings: Mapping[str, Any]) -> dict[str, str]:
    task, model = str(settings["task"]), Path(str(settings["model"])).name
    task = "gsm8k" if task.startswith("gsm8k:") else task
    return {"task": TASKS.get(task, task), "model": MODELS.get(model, model)}


def recomputed(summary: Mapping[str, Any]) -> dict[str, Any]:
    """The summary with its statistics computed from its values; an error if two places disagree on a value."""
    found = dict(summary)
    if "table" not in summary:
        return found
    table, panels = summary["table"], summary.get("panels", [])
    curves = {
        (panel.get("coords", {}).get("measure"), one["method"]): np.array(one["seeds"], float)
        for panel in panels
        for one in panel["series"]
        if one.get("seeds")
    }
    rows = [recomputed_row(_with_ends(one, curves)) for one in table["rows"]]
    found["table"] = {**table, "rows": rows}
    found["panels"] = [
        {**panel, "series": [_series(one) for one in panel["series"]]} for panel in panels
    ]
    return found


def _rounded(values: Any) -> list[float | None]:
    """JSON numbers; first rounded to 12 decimals, so that they do not depend on how a library sums."""
    return rounded(np.round(np.atleast_1d(np.asarray(values, float)), 12))


def recomputed_row(one: Mapping[str, Any]) -> dict[str, Any]:
    """A row of the table, with the statistics of its values; as it is without values."""
    values = np.array(one.get("values") or [], float)
    if not len(values):
        return dict(one)
    low, high = interval([values]) if len(values) > 1 else (None, None)
    made = {
        "mean": values.mean(),
        "median": np.median(values),
        "iqm": iqm(values),
        "iqm_low": low,
        "iqm_high": high,
    }
    rounded = {name: None if x is None else _rounded(x)[0] for name, x in made.items()}
    return {**one, **{k: v for k, v in rounded.items() if k in one}, "n": len(values)}


def _series(one: Mapping[str, Any]) -> dict[str, Any]:
    """A curve, with the statistics of its seeds at each point."""
    seeds = np.array(one.get("seeds") or [], float)
    if seeds.ndim != 2 or not seeds.size:
        return dict(one)
    made: dict[str, Any] = {
        "mean": _rounded(seeds.mean(0)),
        "median": _rounded(np.median(seeds, 0)),
        "se": _rounded(standard_error(seeds)),
    }
    if one.get("iqm_low"):
        ends = [interval([x]) if len(x) > 1 else (None, None) for x in seeds.T]
        made["iqm"] = _rounded(iqm(seeds.T))
        for i, name in enumerate(("iqm_low", "iqm_high")):
            made[name] = [None if end[i] is None else _rounded(end[i])[0] for end in ends]
    return {**one, **{name: x for name, x in made.items() if name in one}}


def _with_ends(
    one: Mapping[str, Any], curves: Mapping[tuple[str | None, str], np.ndarray]
) -> Mapping[str, Any]:
    """The row of a final accuracy with the ends of its seeds' curves as values; an error if they differ."""
    metric, values = one["metric"], one.get("values")
    name = "pass_at_k" if metric.startswith("pass@") else ACCURACIES.get(metric)
    curve = curves.get((name, one["method"]))
    if curve is None or not values:
        return one
    ends = rounded(100 * curve[:, -1])
    if len(ends) != len(values) or not np.allclose(np.array(ends, float), values, rtol=ROUNDED):
        raise ValueError(
            f"{one['method']}: {metric} has the values {values}, and its curves end at {ends}"
        )
    return {**one, "values": ends}

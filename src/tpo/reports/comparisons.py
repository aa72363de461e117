"""Comparisons of language models: what is kept of `tpo train --compare DIR` in FOLDER/llm, one JSON file each.

A file is the comparison's summary as the report takes it, with short numbers. The numbers of its runs stand
beside those that were published for the same task and model.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tpo.lab.studies.published import Published
from tpo.reports.page_data import plain
from tpo.reports.tables import Ours
from tpo.storage.files import read_json, write_text

MODELS = {"DeepSeek-R1-Distill-Qwen-1.5B": "R1-Distill-1.5B"}
TASKS = {"gsm8k": "GSM8K", "gym:graph_color": "graph_color"}
"""How the paper calls them."""


def holds_one(folder: str | Path) -> bool:
    """Whether this is a folder of `tpo train --compare`."""
    return (Path(folder) / "comparison.json").is_file()


def keep(folder: Path, summary: Mapping[str, Any], name: str) -> Path:
    """Write a finished comparison to the evidence; an earlier one of that name is replaced."""
    text = json.dumps(plain(summary), separators=(",", ":"))
    for word in (summary["settings"]["model"], summary["settings"]["task"].removeprefix("gsm8k:")):
        if word[:1] in "./~":  # a place on the machine that it ran on
            text = text.replace(word, Path(word).name)
    path = folder / "llm" / f"{name}.json"
    write_text(path, text + "\n")
    return path


def read(folder: Path) -> dict[str, dict[str, Any]]:
    """Every comparison that is kept, by name."""
    return {path.stem: read_json(path) for path in sorted((folder / "llm").glob("*.json"))}


def row(number: Published, kept: Iterable[Mapping[str, Any]]) -> dict[str, Any] | None:
    """The row of a table for a published number; None where no comparison has it."""
    for summary in kept:
        if _place(summary["settings"]) != dict(number.coords):
            continue
        for found in summary["table"]["rows"]:
            if (found["method"], found["metric"]) == (number.method, number.metric) and found["n"]:
                ours = Ours.mean(np.array(found["values"])).columns(found["n"], number)
                own = {"coords": dict(number.coords), "method": number.method.upper()}
                return {**found, **own, "published": number.value, **ours}
    return None


def _place(settings: Mapping[str, Any]) -> dict[str, str]:
    task, model = str(settings["task"]), Path(str(settings["model"])).name
    task = "gsm8k" if task.startswith("gsm8k:") else task
    return {"task": TASKS.get(task, task), "model": MODELS.get(model, model)}

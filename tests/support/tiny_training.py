"""`tpo train` on a tiny random model: a folder with what it needs, and flags for a run of seconds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from support import tiny_model


def prepare(folder: Path) -> Path:
    """A model, and a task of 40 prompts whose answer is a word."""
    tiny_model.saved(folder / "model")
    rows = [{"prompt": f"w{i} w{(3 * i) % 80}", "answer": "w1"} for i in range(40)]
    (folder / "task.jsonl").write_text("\n".join(map(json.dumps, rows)))
    return folder


def flags(place: Path, out: str = "run", **changes: Any) -> list[str]:
    """The command line; an option that is None is left out."""
    options = {
        "model": place / "model",
        "task": place / "task.jsonl",
        "objective": "tpo",
        "out": place / out,
        "preset": "small",
        "scorer": "contains",
        "prompts": 2,
        "group_size": 4,
        "steps": 3,
        "max_tokens": 8,
        "held_out": 4,
        "eval_samples": 4,
        "save_every": 1,
        "learning_rate": 0.01,
        **changes,
    }
    given = [f"--{k.replace('_', '-')}={v}" for k, v in options.items() if v is not None]
    return ["train", *given, "--cpu"]

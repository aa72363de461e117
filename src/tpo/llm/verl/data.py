"""A text task as verl reads it: `train.parquet` and `test.parquet`, each row with its own scorer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tpo.llm.tasks import TextTask, task

if TYPE_CHECKING:
    from datasets import Dataset

PAPER: dict[str, dict[str, Any]] = {
    "gsm8k": {"name": "gsm8k", "held_out": 1319},
    "graph_color": {"name": "gym:graph_color", "size": 4000, "held_out": 200},
    "knights_knaves": {"name": "gym:knights_knaves", "size": 4000, "held_out": 200},
}
"""The tasks that arXiv 2604.06159 trains language models on, and how they are made."""


def write(made: TextTask, folder: str | Path) -> tuple[Path, Path]:
    """Both files; what the scorer needs stands in each row's `reward_model.ground_truth`, as JSON.

    A scorer of the user's own (module:function) must be named in verl's config too: see `rewards.OPTION`.
    """
    import pyarrow
    from pyarrow import parquet

    out = Path(folder)
    out.mkdir(parents=True, exist_ok=True)
    paths = out / "train.parquet", out / "test.parquet"
    for path, rows in zip(paths, (made.train, made.held_out), strict=True):
        table = pyarrow.Table.from_pylist(_rows(made, rows, path.stem))
        unfinished = path.with_suffix(".part")
        parquet.write_table(table, unfinished)
        unfinished.replace(path)
    return paths


def prepare(recipe: str, folder: str | Path, **options: Any) -> tuple[Path, Path]:
    """Make and write the task of a recipe, a name of PAPER; `options` are those of `tpo.llm.task`."""
    return write(task(**{**PAPER[recipe], **options}), folder)


def _rows(made: TextTask, rows: Dataset, split: str) -> list[dict[str, Any]]:
    return [
        {
            "data_source": made.name,
            "prompt": row["prompt"],
            "ability": "reasoning",
            "reward_model": {"style": "rule", "ground_truth": ground_truth(made, row)},
            "extra_info": {"split": split, "index": i},
        }
        for i, row in enumerate(rows)
    ]


def ground_truth(made: TextTask, row: dict[str, Any]) -> str:
    """How a completion of this row is scored: scorer, threshold and what the scorer takes, as JSON."""
    given = {name: row[name] for name in made.columns}
    return json.dumps({"scorer": dict(made.scorer), "threshold": made.threshold, "given": given})

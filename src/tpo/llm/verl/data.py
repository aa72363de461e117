"""A text task as files for verl: `train.parquet` and `test.parquet`, where each row names its scorer."""

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
"""The tasks on which arXiv 2604.06159 trains language models, as arguments of `tpo.llm.task`."""


def write(made: TextTask, folder: str | Path) -> tuple[Path, Path]:
    """Write both files. In each row, `reward_model.ground_truth` has what the scorer needs, as JSON.

    A scorer of your own (module:function) must be named in verl's config too: see `rewards.OPTION`.
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
    """Write the files of a recipe, a name in PAPER; `options` are arguments of `tpo.llm.task`."""
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
    """How a completion of this row is scored, as JSON: scorer, threshold, and the arguments of the scorer."""
    given = {name: row[name] for name in made.columns}
    return json.dumps({"scorer": dict(made.scorer), "threshold": made.threshold, "given": given})

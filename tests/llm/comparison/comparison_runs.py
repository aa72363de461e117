"""Runs of a comparison for these tests: flags for real ones, and the files of complete ones."""

import json
from pathlib import Path
from typing import Any

from support.tiny_training import flags
from tpo.llm.comparison.plan import Run
from tpo.llm.runs.artifacts import write_lines
from tpo.storage.files import write_json


def comparison_flags(place: Path, out: str, compare: str = "tpo,grpo", **changes: Any) -> list[str]:
    options = {"steps": None, "batches": 2, "save_every": 0, "compare": compare, **changes}
    return [*flags(place, out, **options), "--discard-model"]


def read_result(run: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((run / "result.json").read_text())
    return found


def write_complete_run(run: Run, sampled: list[float]) -> None:
    """The files of a run of four rollout batches of eight, evaluated every two of them."""
    steps = [run.recipe.epochs * batch for batch in (0, 2, 4)]
    rows = [
        {"step": step, "sampled": x, "greedy": x, "pass_at_k": x + 0.1, "kl": None}
        for step, x in zip(steps, sampled, strict=True)
    ]
    log = {
        "reward": 0.5,
        "entropy": 2.0,
        "completions/mean_length": 8,
        "groups/zero_variance": 0.25,
        "grad_norm": 3.0,
    }
    result = {"steps": steps[-1], "seconds": 3.0, "seconds_per_step": {"step": 0.5}, "peak_memory": 2_000_000_000,
              "evaluations": rows, "provenance": {"device": "a device"}}  # fmt: skip
    run.folder.mkdir()
    write_lines(run.folder / "evaluations.jsonl", rows)
    write_lines(run.folder / "log.jsonl", [{"step": n + 1, **log} for n in range(steps[-1])])
    write_json(run.folder / "result.json", result)

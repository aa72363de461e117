"""Several runs of a comparison at a time: full GPUs, runs that follow others, and what is printed."""

import json
import re
import time
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("trl")

from tpo.llm.comparison import pool
from tpo.llm.comparison.method import methods
from tpo.llm.comparison.plan import Plan, Run
from tpo.llm.runs.recipe import Recipe
from tpo.storage.files import read_json


def test_what_two_runs_ask_for_is_run_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two trials may have ended before either is looked at, and then both find their method tuned."""
    plan = Plan(Recipe("m", "gsm8k", batches=4, out=str(tmp_path)), methods("tpo,grpo"))
    first, last = (
        (plan.run(plan.methods[0], 0), plan.run(plan.methods[0], 1)),
        plan.run(plan.methods[1], 0),
    )
    ended: list[Run] = []

    def then(run: Run) -> list[Run]:
        ended.append(run)
        return [last] if run in first else []

    monkeypatch.setattr(pool, "TrainingWorker", Idle)
    pool.run_in_processes(first, tmp_path, then, 2)
    assert sorted(run.title for run in ended) == ["grpo, seed 0", "tpo, seed 0", "tpo, seed 1"]


def test_a_run_without_an_informative_group_says_so_when_it_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Not only in the report: other runs of the comparison may do the same, and can still be stopped."""
    plan = Plan(Recipe("m", "gsm8k", batches=4, out=str(tmp_path)), methods("tpo,grpo"))
    run = plan.run(plan.methods[0], 0)
    run.folder.mkdir()
    uninformative = {"groups/zero_variance": 1.0, "groups/all_pass": 0.0}
    rows = [{"step": step, **uninformative} for step in range(1, 5)]
    (run.folder / "log.jsonl").write_text("\n".join(map(json.dumps, rows)))
    monkeypatch.setattr(pool, "TrainingWorker", Idle)
    pool.run_in_processes([run], tmp_path, lambda _: [], 2)
    assert "0 s; no informative group in the last 4 of 4" in capsys.readouterr().err


class Full:
    """A worker on a device that holds nothing."""

    def __init__(self, workers: int) -> None:
        pass

    def train(self, recipe: Recipe, base: Path) -> dict[str, Any]:
        raise RuntimeError("CUDA error: out of memory")


class Burst:
    """A worker on a device that four runs fill together, once: each fails when all have started."""

    def __init__(self, workers: int) -> None:
        pass

    def train(self, recipe: Recipe, base: Path) -> dict[str, Any]:
        mine, end = base / f"running-{recipe.seed}", time.monotonic() + 60
        if mine.exists():
            return Idle(0).train()
        mine.touch()
        while len(list(base.glob("running-*"))) < 4 and time.monotonic() < end:
            time.sleep(0.01)
        raise RuntimeError("CUDA error: out of memory")


class Crowded:
    """A worker on a device where two runs fit and a third does not; the two wait to see it fail."""

    def __init__(self, workers: int) -> None:
        pass

    def train(self, recipe: Recipe, base: Path) -> dict[str, Any]:
        (base / f"running-{recipe.seed}").touch()
        full, end = base / "full", time.monotonic() + 60
        if recipe.seed == 2 and not full.exists():
            while len(list(base.glob("running-*"))) < 3 and time.monotonic() < end:
                time.sleep(0.01)
            full.touch()
            raise RuntimeError("CUDA error: out of memory")
        while not full.exists() and time.monotonic() < end:
            time.sleep(0.01)
        time.sleep(1.0)  # the failure is heard before the others end
        return Idle(0).train()


class Idle:
    """A worker that trains nothing."""

    def __init__(self, workers: int) -> None:
        pass

    def train(self, *_: Any) -> dict[str, Any]:
        return {"seconds": 0.0, "evaluations": [{"sampled": 0.0, "greedy": 0.0}]}


@pytest.mark.parametrize(("worker", "workers", "messages"), [
    (Crowded, 3, ["2 at a time"]),
    (Burst, 4, ["3 at a time"] * 4),  # each fails before the memory of the others is free
])  # fmt: skip
def test_a_full_gpu_takes_fewer_runs_at_a_time(
    worker: type, workers: int, messages: list[str], tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    plan = Plan(Recipe("m", "gsm8k", batches=4, out=str(tmp_path)), methods("tpo,grpo"))
    runs = [plan.run(plan.methods[0], seed) for seed in range(4)]
    ended: list[Run] = []
    monkeypatch.setattr(pool, "TrainingWorker", worker)
    pool.run_in_processes(runs, tmp_path, lambda run: ended.append(run) or [], workers)
    assert sorted(run.recipe.seed for run in ended) == [0, 1, 2, 3]
    assert not list(tmp_path.glob("*/failed.json"))
    assert re.findall(r"no memory left; (\d at a time)", capsys.readouterr().err) == messages


def test_a_run_that_finds_no_memory_alone_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = Plan(Recipe("m", "gsm8k", batches=4, out=str(tmp_path)), methods("tpo,grpo"))
    run = plan.run(plan.methods[0], 0)
    monkeypatch.setattr(pool, "TrainingWorker", Full)
    pool.run_in_processes([run], tmp_path, lambda _: [], 4)
    assert "out of memory" in read_json(run.folder / "failed.json")["error"]

"""What a comparison concludes: rollouts to an accuracy, ties, the values that tuning chooses and waits for."""

import json
import re
import time
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("trl")

from tpo.cli import main
from tpo.llm import TargetPolicyConfig, summary
from tpo.llm.comparison import pool
from tpo.llm.comparison.method import methods
from tpo.llm.comparison.plan import Plan, Run, make_plan
from tpo.llm.comparison.tuning import Tuning
from tpo.llm.comparison.tuning_results import choose_value, tuned_methods, tuning_runs
from tpo.llm.runs.artifacts import read_lines, write_lines
from tpo.llm.runs.recipe import Recipe
from tpo.reports.markdown.llm_page import page
from tpo.storage.files import read_json, write_json


def _complete_run(run: Run, sampled: list[float]) -> None:
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
    result = {"seconds": 3.0, "seconds_per_step": {"step": 0.5}, "peak_memory": 2_000_000_000,
              "evaluations": rows, "provenance": {"device": "a device"}}  # fmt: skip
    run.folder.mkdir()
    write_lines(run.folder / "evaluations.jsonl", rows)
    write_lines(run.folder / "log.jsonl", [{"step": n + 1, **log} for n in range(steps[-1])])
    write_json(run.folder / "result.json", result)


def test_rollouts_to_a_threshold_by_hand(tmp_path: Path) -> None:
    """GRPO goes from .1 to 1.4/3, and with two epochs to 1.2/3, so methods are timed to .1 + .9 x 1.1/3 = .43.

    GRPO's mean goes from .8/3 at 16 rollouts to 1.4/3 at 32, and is at .43 after 16 + 16 (.43 - .8/3)/.2 = 29.07;
    its third seed never is, and counts with 40. TPO's goes from .1 to .5 over the first 16, and is at .43 after
    16 x .33/.4 = 13.2, whatever its epochs per batch.
    """
    recipe = Recipe("m", "gsm8k", batches=4, prompts=2, group_size=4, out=str(tmp_path))
    plan = Plan(recipe, methods("tpo:epochs=2,grpo:epochs=2,grpo"), 3)
    tpo, worse, grpo = plan.methods
    for seed, curve in enumerate([[0.1, 0.3, 0.5], [0.1, 0.3, 0.5], [0.1, 0.2, 0.4]]):
        _complete_run(plan.run(grpo, seed), curve)
        _complete_run(plan.run(worse, seed), [0.1, 0.2, 0.6 if seed == 0 else 0.3])
        _complete_run(plan.run(tpo, seed), [0.1, 0.5, 0.6])
    write_json(tmp_path / "comparison.json", {"plan": plan.to_dict()})
    found = summary(tmp_path)
    own, other, base = found["methods"]
    assert [one["baseline"] for one in found["methods"]] == [False, False, True]
    assert (own["threshold"], own["rollouts"]) == (pytest.approx(0.43), pytest.approx(13.2))
    assert base["rollouts"] == pytest.approx(16 + 16 * (0.43 - 0.8 / 3) / 0.2)
    assert (own["ratio"], base["ratio"]) == (pytest.approx(13.2 / base["rollouts"]), 1)
    assert (own["reached"], other["reached"], base["reached"], base["seeds"]) == (3, 1, 2, 3)
    rows = {(r["method"], r["metric"]): r for r in found["table"]["rows"]}
    assert rows["grpo", "rollouts to 43.0% if reached"]["values"] == pytest.approx([26.4, 26.4])
    assert rows["grpo", "informative groups %"]["mean"] == 75
    assert rows["grpo", "mean sampled accuracy %"]["values"] == pytest.approx([30, 30, 70 / 3])
    assert rows["grpo", "peak memory GB"]["mean"] == 2
    text = page({"by_hand": found}, {})
    assert (
        "| [by\\_hand](#by_hand-m-on-gsm8k) | 3 | TPO epochs=2 | GRPO | 0.423 | 0.454 | 0.458 | 60 | 46.7 | 70 | 56.7 |"
        in text
    )
    assert "| rollouts to 43.0% | × GRPO |" in text
    assert "| 13 (3 of 3) | 0.454 |" in text
    assert "| 29 (2 of 3) | 1 |" in text
    verdicts = found["verdicts"]
    # three seeds, one far out
    assert [v["status"] for v in verdicts[:2]] == ["undecided", "undecided"]
    assert len(verdicts) == 4
    assert (
        "13 rollouts (median 13) against GRPO 31 rollouts (median 26) (n = 3)"
        in verdicts[0]["detail"]
    )
    assert "40% (median 40%) against GRPO 53.3% (median 50%)" in verdicts[1]["detail"]


@pytest.mark.parametrize(
    ("flat", "passed", "uninformative"),
    [
        ([0] * 8 + [1] * 2, 0.0, 2),
        ([1] * 10, 0.0, 10),
        ([0] * 9 + [1], 0.0, None),  # a tenth is not reported
        ([1] * 9 + [0.9], 0.0, None),
        ([0] * 2 + [1] * 8, 1.0, None),  # nothing to learn, since all is solved
    ],
)
@pytest.mark.parametrize("epochs", [1, 2])
def test_a_run_that_had_nothing_left_to_learn_from_is_named(
    tmp_path: Path, flat: list[float], passed: float, uninformative: int | None, epochs: int
) -> None:
    recipe = Recipe("m", "gsm8k", batches=10, prompts=2, group_size=4, out=str(tmp_path))
    plan = Plan(recipe, methods(f"tpo,grpo:epochs={epochs}"))
    for one in plan.methods:
        _complete_run(plan.run(one, 0), [0.1, 0.3, 0.5])
    collapsed = plan.run(plan.methods[1], 0)
    log = collapsed.folder / "log.jsonl"
    usual = read_lines(log)[0] | {"groups/all_pass": passed}
    rows = [
        {**usual, "step": i * epochs + 1, "groups/zero_variance": x} for i, x in enumerate(flat)
    ]
    write_lines(log, rows)
    write_json(tmp_path / "comparison.json", {"plan": plan.to_dict()})
    problem = f"{collapsed.title}: no informative group in the last {uninformative} of 10 rollout batches."
    about = summary(tmp_path)["about"]
    assert about.endswith(problem) if uninformative else "informative" not in about


def test_problems_of_a_run_are_named_with_its_numbers(tmp_path: Path) -> None:
    recipe = Recipe("m", "gsm8k", batches=4, prompts=2, group_size=4, out=str(tmp_path))
    plan = Plan(recipe, methods("tpo,grpo"))
    sound, troubled = (plan.run(one, 0) for one in plan.methods)
    for run in (sound, troubled):
        _complete_run(run, [0.1, 0.3, 0.5])
    rows = [
        {
            **row,
            "skipped_steps": float(row["step"] > 2),
            "reward_failures": 0.25 * (row["step"] == 1),
        }
        for row in read_lines(troubled.folder / "log.jsonl")
    ]
    write_lines(troubled.folder / "log.jsonl", rows)
    result = read_json(troubled.folder / "result.json")
    result["evaluations"] = [{**row, "failures": 2} for row in result["evaluations"]]
    write_json(troubled.folder / "result.json", result)
    write_json(tmp_path / "comparison.json", {"plan": plan.to_dict()})
    about = summary(tmp_path)["about"]
    assert about.endswith(
        "grpo, seed 0: 2 of 4 steps skipped, their gradient not finite; 6.25% of completions not scored; "
        "6 held-out completions not scored, which count as not solved."
    )
    assert "tpo, seed 0" not in about


def test_how_many_steps_were_clipped(tmp_path: Path) -> None:
    """Each by the limit of its method, TRL's own by default; 0 is none."""
    recipe = Recipe("m", "gsm8k", batches=4, prompts=2, group_size=4, out=str(tmp_path))
    assert recipe.max_grad_norm == TargetPolicyConfig("x", bf16=False).max_grad_norm
    plan = Plan(recipe, methods("tpo,tpo:max_grad_norm=5,tpo:max_grad_norm=0"))
    for method in plan.methods:
        _complete_run(plan.run(method, 0), [0.1, 0.3, 0.5])
    write_json(tmp_path / "comparison.json", {"plan": plan.to_dict()})
    rows = [r for r in summary(tmp_path)["table"]["rows"] if r["metric"] == "clipped steps %"]
    assert [row["mean"] for row in rows] == [100, 0, 0]


def test_a_complete_run_is_read_from_its_result(tmp_path: Path) -> None:
    """Whatever became of the files that it was made of: here they are empty."""
    recipe = Recipe("m", "gsm8k", batches=4, prompts=2, group_size=4, out=str(tmp_path))
    plan = Plan(recipe, methods("tpo,grpo"))
    for method in plan.methods:
        _complete_run(plan.run(method, 0), [0.1, 0.3, 0.5])
    write_json(tmp_path / "comparison.json", {"plan": plan.to_dict()})
    before = summary(tmp_path)
    write_lines(plan.run(plan.methods[0], 0).folder / "evaluations.jsonl", [])
    assert summary(tmp_path) == before


def test_a_tie_is_no_win(tmp_path: Path) -> None:
    recipe = Recipe("m", "gsm8k", batches=4, prompts=2, group_size=4, out=str(tmp_path))
    plan = Plan(recipe, methods("tpo,grpo"), 3)
    for run in (plan.run(one, seed) for one in plan.methods for seed in range(3)):
        _complete_run(run, [0.1, 0.3, 0.5])
    write_json(tmp_path / "comparison.json", {"plan": plan.to_dict()})
    assert [v["status"] for v in summary(tmp_path)["verdicts"]] == ["undecided", "undecided"]


def test_nothing_has_begun(tmp_path: Path) -> None:
    """As when tuning failed for every value."""
    plan = Plan(Recipe("m", "gsm8k", batches=4, out=str(tmp_path)), methods("tpo,grpo"))
    write_json(tmp_path / "comparison.json", {"plan": plan.to_dict()})
    found = summary(tmp_path)
    assert found["progress"] == {"cells_done": 0, "cells": 2}
    assert [series["x"] for series in found["panels"][0]["series"]] == [[], []]
    assert main(["report", str(tmp_path)]) == 0


@pytest.mark.parametrize("curve", [[0.0, 0.0, 0.0], [0.5, 0.7, 0.4]], ids=["zero", "falls"])
def test_a_baseline_that_gains_nothing_is_no_goal(tmp_path: Path, curve: list[float]) -> None:
    recipe = Recipe("m", "gsm8k", batches=4, prompts=2, group_size=4, out=str(tmp_path))
    plan = Plan(recipe, methods("tpo,grpo"))
    for one in plan.methods:
        _complete_run(plan.run(one, 0), curve)
    write_json(tmp_path / "comparison.json", {"plan": plan.to_dict()})
    found = summary(tmp_path)
    assert not any("rollouts" in verdict["claim"] for verdict in found["verdicts"])
    assert [one["threshold"] for one in found["methods"]] == [None, None]
    assert not any("rollouts to" in row["metric"] for row in found["table"]["rows"])


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


def test_a_method_waits_for_runs_that_failed_for_another_reason_than_its_value(place: Path) -> None:
    """A process that died, or found the GPU or the disk full, is tried again; another error counts for its value."""
    plan = Plan(Recipe("m", "gsm8k", batches=4, out=str(place)), methods("tpo,grpo"), 1,
                Tuning("learning_rate", (0.1, 0.2), seeds=1))  # fmt: skip
    tpo = plan.methods[0]
    low, high = tuning_runs(plan, tpo)
    row = {"step": 0, "sampled": 0.25}
    for run, failed in ((low, None), (high, {"error": "killed", "kind": "Lost"})):
        run.folder.mkdir(parents=True)
        (run.folder / "evaluations.jsonl").write_text(json.dumps(row))
        (run.folder / "result.json").write_text("{}")
        if failed:
            (run.folder / "result.json").unlink()
            (run.folder / "failed.json").write_text(json.dumps(failed))
    assert not choose_value(plan, tpo)
    for error in (
        "AcceleratorError: CUDA error: out of memory",
        "RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
        "OSError: [Errno 28] No space left on device",
    ):
        kind = error.partition(":")[0]
        (high.folder / "failed.json").write_text(json.dumps({"error": error, "kind": kind}))
        assert not choose_value(plan, tpo)
    (high.folder / "failed.json").write_text('{"error": "NaN", "kind": "RuntimeError"}')
    assert choose_value(plan, tpo)
    assert tuned_methods(plan)[tpo].name == "tpo:learning_rate=0.1"


def test_a_value_beside_one_that_did_not_improve_is_named(tmp_path: Path) -> None:
    """TPO is best at .2 and collapses at .4. GRPO is best at .1, two values from its collapse. LPO is best at .4."""
    tuning = Tuning("learning_rate", (0.4, 0.1, 0.2), seeds=1)
    plan = Plan(
        Recipe("m", "gsm8k", batches=4, out=str(tmp_path)), methods("tpo,grpo,lpo"), 1, tuning
    )
    ends = {"tpo": (0.0, 0.3, 0.5), "grpo": (0.0, 0.5, 0.3), "lpo": (0.5, 0.3, 0.2)}
    (tmp_path / "tuning").mkdir()
    for method in plan.methods:
        for run, end in zip(tuning_runs(plan, method), ends[method.name], strict=True):
            _complete_run(run, [0.1, end, end])
        assert choose_value(plan, method)
    write_json(tmp_path / "comparison.json", {"plan": plan.to_dict()})
    found = summary(tmp_path)
    assert found["tuning"]["brink"] == ["tpo"]
    assert [row["nowhere"] for row in found["tuning"]["rows"]] == [1, 0, 0] * 2 + [0] * 3
    caveat = "At or beside a value with which a seed failed or did not improve, as others may: tpo."
    assert caveat in found["about"]
    assert "| TPO | 3.33 ✗ | 23.3 | 36.7 ★ |" in page({"a": found}, {})


@pytest.mark.parametrize(
    ("own", "words"),
    [
        ({"tune": "learning_rate=1e-5"}, "tune holds 1 values of learning_rate"),
        ({"tune": "learning_rate=1e-5,2e-5,.00001"}, "tune holds learning_rate=1e-05 2 times"),
        ({"tune": "learning_rate"}, "expected one option and its values"),
        ({"tune_seeds": 2}, "tune_seeds says how to tune, but not what"),
        ({"tune": {"eta": [1, 2]}}, "objective 'grpo' has no option 'eta'"),
        ({"compare": "tpo:beta=1,grpo", "tune": "beta=1,2"}, "'tpo:beta=1.0' sets beta, which is tuned"),
    ],
)  # fmt: skip
def test_wrong_tuning_names_itself(own: dict[str, Any], words: str) -> None:
    options = {"model": "m", "task": "gym:chain_sum"}
    with pytest.raises(ValueError, match=words):
        make_plan({"compare": "tpo,grpo", **own}, options).check()

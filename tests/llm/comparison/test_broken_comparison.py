"""Every file of a comparison, broken in every way: `tpo report` names it, and the rest stays readable."""

import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("trl")

from comparison_runs import write_complete_run

from support.broken_files import CORRUPTIONS, broken
from support.tiny_training import flags
from tpo.cli import main
from tpo.llm import summary
from tpo.llm.comparison.method import methods
from tpo.llm.comparison.plan import Plan, Run
from tpo.llm.comparison.run_log import BROKEN_FILE, RunLog
from tpo.llm.comparison.tuning import Tuning
from tpo.llm.comparison.tuning_results import choose_value
from tpo.llm.runs.recipe import Recipe
from tpo.storage.files import write_json

PLANS = ("comparison.json", "tuning.json")
"""Files without which nothing can be read; any other belongs to one run."""


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    """Two methods with two seeds, each tuned: all complete but one run, which failed."""
    recipe = Recipe("m", "gsm8k", batches=4, prompts=2, group_size=4, out=str(tmp_path))
    made = Plan(recipe, methods("tpo,grpo"), 2, Tuning("learning_rate", (1e-5, 2e-5), seeds=1))
    write_json(tmp_path / "comparison.json", {"plan": made.to_dict()})
    (tmp_path / "tuning").mkdir()
    for run in _runs(made):
        write_complete_run(run, [0.1, 0.3, 0.2 + run.recipe.learning_rate * 1e4])
    failed = _runs(made)[-1].folder
    (failed / "result.json").unlink()
    write_json(failed / "failed.json", {"error": "no memory", "kind": "OSError", "trace": ""})
    assert all(choose_value(made, method) for method in made.methods)
    return made


def _runs(plan: Plan) -> list[Run]:
    """Every tuning run, then every reported run."""
    assert plan.tuning is not None
    variants = [one for method in plan.methods for one in plan.tuning.variants(method)]
    tuning = [run for variant in variants for run in plan.tuning_runs(variant)]
    return tuning + [plan.run(m, seed, m.with_option("learning_rate", 2e-5))
                     for m in plan.methods for seed in plan.reported_seeds]  # fmt: skip


@pytest.mark.parametrize("corruption", CORRUPTIONS)
def test_a_broken_file_is_named_and_the_others_are_read(
    plan: Plan, corruption: str, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = plan.folder
    names = sorted(str(path.relative_to(folder)) for path in folder.rglob("*.json*"))
    assert len(names) == 2 + 7 * 3 + 3
    assert _failures(folder) == ["no memory"]
    for name in names:
        with broken(folder / name, corruption):
            if name in PLANS:
                assert main(["report", str(folder)]) == 2
                (line,) = capsys.readouterr().err.splitlines()
                assert line.startswith(f"tpo: {folder / name} ")
                assert ": restore it, or remove it: " in line or ": remove it: " in line
            else:
                _one_run_is_named(plan, name, corruption)
    assert _failures(folder) == ["no memory"]
    assert main(["report", str(folder)]) == 0


def _failures(folder: Path) -> list[str]:
    return [one["error"] for one in summary(folder)["failures"]]


def _one_run_is_named(plan: Plan, name: str, corruption: str) -> None:
    """Among the failures if it is reported; a complete run's evaluations are those of its result."""
    path = plan.folder / name
    (run,) = [run for run in _runs(plan) if run.folder == path.parent]
    found, log = summary(plan.folder), RunLog.read(run)
    complete = (path.parent / "result.json").exists()
    not_read = complete and path.name == "evaluations.jsonl"
    like_a_kill = not complete and path.suffix == ".jsonl" and corruption in ("empty", "half")
    assert (log.error_kind == BROKEN_FILE) == (not not_read and not like_a_kill)
    named = log.error_kind == BROKEN_FILE and not run.is_tuning
    assert any(name in one["error"] for one in found["failures"]) == named
    assert found["progress"]["cells_done"] == 3 - (named and complete)
    json.dumps(found, allow_nan=False)


def test_a_broken_tuning_run_does_not_decide(
    plan: Plan, capsys: pytest.CaptureFixture[str]
) -> None:
    """The method waits until the file is restored, instead of taking another value."""
    (plan.folder / "tuning.json").unlink()
    chosen = _runs(plan)[1].folder / "result.json"
    with broken(chosen, "half"):
        assert not choose_value(plan, plan.methods[0])
        found = summary(plan.folder)
        assert any(str(chosen) in one["error"] for one in found["failures"])
    assert choose_value(plan, plan.methods[0])


@pytest.mark.parametrize("corruption", CORRUPTIONS)
def test_a_resume_names_the_broken_file(
    place: Path, corruption: str, capsys: pytest.CaptureFixture[str]
) -> None:
    out = place / "run"
    options: dict[str, Any] = {"steps": None, "batches": 1, "compare": "tpo,grpo"}
    for content in ({"plan": 1}, {"plan": {}}):
        write_json(out / "comparison.json", content)
        with broken(out / "comparison.json", corruption):
            assert main([*flags(place, **options), "--resume"]) == 2
        assert main([*flags(place, **options), "--resume"]) == 2
        assert main(["report", str(out)]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 6
    assert all(line.startswith(f"tpo: {out / 'comparison.json'} ") for line in lines)


def test_runs_with_other_evaluations_are_compared_where_both_have_one(plan: Plan) -> None:
    """As after a resume whose evaluations.jsonl was lost."""
    result = _runs(plan)[4].folder / "result.json"
    content = json.loads(result.read_text())
    del content["evaluations"][:2]
    result.write_text(json.dumps(content))
    found = summary(plan.folder)
    assert found["progress"]["cells_done"] == 3
    assert [one["reached"] for one in found["methods"]] == [2, 1]


WRONG_VALUES: list[tuple[str, Any]] = [
    ("evaluations", []),
    ("evaluations", [1]),
    ("evaluations", [{"step": 0, "sampled": 0.1, "greedy": 0.1}]),
    ("evaluations", [{"step": 0, "sampled": "x", "greedy": 0.1, "pass_at_k": 0.1}]),
    ("seconds_per_step", 1.5),
    ("seconds_per_step", {"step": "x"}),
    ("seconds", 10**400),
    ("peak_memory", "x"),
]


def test_a_wrong_value_is_named_and_the_others_are_read(plan: Plan) -> None:
    complete = [
        run for run in _runs(plan) if not run.is_tuning and (run.folder / "result.json").exists()
    ]
    path = complete[0].folder / "result.json"
    whole = path.read_text()
    for name, value in WRONG_VALUES:
        write_json(path, {**json.loads(whole), name: value})
        assert any(str(path) in one for one in _failures(plan.folder)), (name, value)
    path.write_text(whole)
    log = path.with_name("log.jsonl")
    log.write_text(log.read_text().replace('"entropy": 2.0', '"entropy": "x"', 1))
    (named,) = [one for one in _failures(plan.folder) if one != "no memory"]
    assert named.startswith(f"{log} holds 'entropy' 'x', expected a number: ")

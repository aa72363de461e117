"""Runs of earlier versions: what their options were, and the commands of docs/research/comparisons run them again."""

import json
import shlex
from pathlib import Path
from typing import Any

import pytest

from support import ROOT

pytest.importorskip("trl")

from tpo.cli import main, parser
from tpo.llm.comparison.plan import read_plan
from tpo.llm.comparison.tuning_results import tuned_methods
from tpo.llm.runs.earlier_runs import changed_options
from tpo.llm.runs.folders import check_comparison
from tpo.llm.runs.recipe import Recipe, recipe, with_current_names
from tpo.storage.files import write_json
from tpo.storage.former_names import current_command

KEPT = sorted((ROOT / "docs/evidence/llm").glob("*.json"))


def test_an_option_that_there_was_not_yet_had_its_default() -> None:
    before = Recipe("m", "gsm8k", batches=3).to_dict()
    del before["max_grad_norm"]
    assert changed_options(before, Recipe("m", "gsm8k", batches=3).to_dict()) == []
    assert changed_options(
        before, Recipe("m", "gsm8k", batches=3, max_grad_norm=2.0).to_dict()
    ) == ["max_grad_norm"]


def test_a_run_that_is_older_than_skip_zero_gradient_did_not_skip(tmp_path: Path) -> None:
    now = Recipe("m", "gsm8k", batches=3).to_dict()
    before = {k: v for k, v in now.items() if k != "skip_zero_gradient"}
    assert changed_options(before, now) == ["skip_zero_gradient"]
    assert changed_options(before, {**now, "skip_zero_gradient": False}) == []
    plan = {"methods": ["tpo", "grpo"], "seeds": 1, "tuning": {}}
    for options, not_skipped in ((before, True), (now, False)):
        write_json(tmp_path / "comparison.json", {"plan": {**plan, "recipe": options}})
        command = read_plan(tmp_path).command
        assert ("--no-skip-zero-gradient" in command) == not_skipped
        requested = vars(parser().parse_args(shlex.split(command)[1:]))
        assert requested.get("skip_zero_gradient", True) != not_skipped


@pytest.mark.parametrize("path", KEPT, ids=lambda path: path.stem)
def test_a_command_asks_for_what_was_run(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a comparison is older than `skip_zero_gradient`, no step was skipped."""
    plans: list[Any] = []

    def keep_plan(plan: Any, *_: Any) -> None:
        plans.append(plan)
        raise ValueError("not to be run here")

    monkeypatch.setattr("tpo.llm.comparison.run.compare", keep_plan)
    monkeypatch.setattr("tpo.cli.train._check_inputs", lambda _: None)
    kept = json.loads(path.read_text(encoding="utf-8"))
    command, settings = kept["command"], with_current_names(kept["settings"])
    assert main(shlex.split(command)[1:]) == 2
    (plan,) = plans
    assert sorted(shlex.split(plan.command)) == sorted(shlex.split(current_command(command)))
    assert plan.recipe.skip_zero_gradient == settings.get("skip_zero_gradient", False)


def test_a_comparison_with_former_names_is_read_where_it_is(tmp_path: Path) -> None:
    """comparison.json, tuning.json, folders and log as an earlier version wrote them."""
    options = Recipe("m", "gsm8k", batches=3).to_dict()
    options["iterations"] = options.pop("epochs")
    options["skip_silent"] = options.pop("skip_zero_gradient")
    tune = {"tune": {"learning_rate": [1e-5, 2e-5]}, "tune_seeds": 1}
    methods = ["tpo:iterations=4:ties=free", "grpo"]
    plan = {"methods": methods, "seeds": 1, "recipe": options, "tuning": tune}
    write_json(tmp_path / "comparison.json", {"plan": plan})
    write_json(tmp_path / "tuning.json", {methods[0]: 2e-5})
    for place in ("tpo-iterations-4-ties-free-seed0", "grpo-seed0"):
        (tmp_path / place).mkdir()
    found = read_plan(tmp_path)
    assert [method.name for method in found.methods] == ["tpo:epochs=4:ties=pooled", "grpo"]
    assert found.recipe.skip_zero_gradient
    own = tuned_methods(found)
    runs = [found.run(method, 0, own.get(method)) for method in found.methods]
    assert [run.folder.name for run in runs] == ["tpo-iterations-4-ties-free-seed0", "grpo-seed0"]
    assert (runs[0].recipe.epochs, runs[0].recipe.learning_rate) == (4, 2e-5)
    assert check_comparison(found, resume=True) == []


def test_former_names_on_the_command_line_and_in_yaml(tmp_path: Path) -> None:
    given = parser().parse_args(shlex.split("train --iterations 4 --no-skip-silent"))
    assert (given.epochs, given.skip_zero_gradient) == (4, False)
    file = {"model": "m", "task": "gsm8k", "iterations": 2, "objective_options": {"ties": "free"}}
    made = recipe({}, file)
    assert (made.epochs, made.objective_options) == (2, {"ties": "pooled"})

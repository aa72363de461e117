"""Runs of earlier versions: what their options were, and the commands of docs/llm-results.md run them again."""

import json
import shlex
from pathlib import Path
from typing import Any

import pytest

from support import ROOT

pytest.importorskip("trl")

from tpo.cli import main, parser
from tpo.llm.comparison.plan import read
from tpo.llm.runs.recipe import Recipe, changed
from tpo.storage.files import write_json

KEPT = sorted((ROOT / "docs/evidence/llm").glob("*.json"))


def test_an_option_that_there_was_not_yet_had_its_default() -> None:
    before = Recipe("m", "gsm8k", batches=3).plain()
    del before["max_grad_norm"]
    assert changed(before, Recipe("m", "gsm8k", batches=3).plain()) == []
    assert changed(before, Recipe("m", "gsm8k", batches=3, max_grad_norm=2.0).plain()) == [
        "max_grad_norm"
    ]


def test_a_run_that_is_older_than_skip_silent_did_not_skip(tmp_path: Path) -> None:
    now = Recipe("m", "gsm8k", batches=3).plain()
    before = {k: v for k, v in now.items() if k != "skip_zero_gradient"}
    assert changed(before, now) == ["skip_zero_gradient"]
    assert changed(before, {**now, "skip_zero_gradient": False}) == []
    plan = {"methods": ["tpo", "grpo"], "seeds": 1, "tuning": {}}
    for noted, told in ((before, True), (now, False)):
        write_json(tmp_path / "comparison.json", {"plan": {**plan, "recipe": noted}})
        command = read(tmp_path).command
        assert ("--no-skip-zero-gradient" in command) == told
        asked = vars(parser().parse_args(shlex.split(command)[1:]))
        assert asked.get("skip_zero_gradient", True) != told


@pytest.mark.parametrize("path", KEPT, ids=lambda path: path.stem)
def test_a_command_asks_for_what_was_run(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a comparison is older than `skip_zero_gradient`, no step was skipped."""
    plans: list[Any] = []

    def noted(plan: Any, *_: Any) -> None:
        plans.append(plan)
        raise ValueError("not to be run here")

    monkeypatch.setattr("tpo.llm.comparison.run.compare", noted)
    kept = json.loads(path.read_text(encoding="utf-8"))
    command = kept["command"]
    assert main(shlex.split(command)[1:]) == 2
    (plan,) = plans
    assert sorted(shlex.split(plan.command)) == sorted(shlex.split(command))
    assert plan.recipe.skip_zero_gradient == kept["settings"].get("skip_zero_gradient", False)

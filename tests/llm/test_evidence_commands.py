"""The commands under the comparisons of docs/llm-results.md run them again."""

import json
import shlex
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("trl")

from tpo.cli import main

KEPT = sorted((Path(__file__).parents[2] / "docs/evidence/llm").glob("*.json"))


@pytest.mark.parametrize("path", KEPT, ids=lambda path: path.stem)
def test_a_command_asks_for_what_was_run(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a comparison is older than `skip_silent`, no step was skipped."""
    plans: list[Any] = []

    def noted(plan: Any, *_: Any) -> None:
        plans.append(plan)
        raise ValueError("not to be run here")

    monkeypatch.setattr("tpo.llm.compare.comparison", noted)
    kept = json.loads(path.read_text(encoding="utf-8"))
    command = kept["command"]
    assert main(shlex.split(command)[1:]) == 2
    (plan,) = plans
    assert sorted(shlex.split(plan.command)) == sorted(shlex.split(command))
    assert plan.recipe.skip_silent == kept["settings"].get("skip_silent", False)

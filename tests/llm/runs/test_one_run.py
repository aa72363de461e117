"""A run of `tpo train`: how deep `optimizer.step` is, and its report."""

import json
from pathlib import Path

import pytest
from torch.optim.optimizer import register_optimizer_step_pre_hook

from support.stack import Depth, depth
from support.tiny_training import flags, prepare
from tpo.cli import main

found: list[Depth] = []


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = prepare(tmp_path_factory.mktemp("place"))
    hook = register_optimizer_step_pre_hook(lambda *_: found.append(depth()))
    try:
        assert main(flags(place, eta=0.5, eval_every=1, save_every=0)) == 0
    finally:
        hook.remove()
    return place


def test_a_step_is_taken_a_few_calls_below_the_command(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    deepest = max(found, key=lambda one: len(one.frames))
    assert deepest.frames[0] == "cli/__init__.py: main"
    with capsys.disabled():
        print(f"\n{deepest}")
    deepest.check()


def test_a_run_of_its_own_has_a_report(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(place / "run"), "--json"]) == 0
    (summary,) = json.loads(capsys.readouterr().out)["studies"]
    assert summary["source"] == "tpo train"
    assert {row["method"] for row in summary["table"]["rows"]} == {"tpo:eta=0.5"}
    (titled,) = [p for p in summary["panels"] if p["coords"]["measure"] == "reward"]
    assert [len(series["x"]) for series in titled["series"]] == [3]
    assert summary["progress"] == {"cells_done": 1, "cells": 1}
    again = summary["command"].split()
    assert again[again.index("--eta") + 1] == "0.5"
    assert again[again.index("--steps") + 1] == "3"
    assert main(["report", str(place / "run")]) == 0
    page = (place / "run/report.html").read_text()
    assert "model on" in page


def test_a_folder_of_comparisons_has_the_report_of_each(place: Path) -> None:
    """As `tpo demo --llm` leaves them: one comparison for each first seed."""
    from tpo.cli.report import _language_models

    for seed in ("seed0", "seed1"):
        (place / "demo" / seed).mkdir(parents=True)
        (place / "demo" / seed / "comparison.json").write_text("{}")
    (place / "demo/small-model").mkdir()
    assert [path.name for path in _language_models(place / "demo")] == ["seed0", "seed1"]

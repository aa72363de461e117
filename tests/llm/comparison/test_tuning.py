"""Tuning: every method with the same values and seeds; which value is chosen, and what is said of it."""

import json
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

pytest.importorskip("trl")

from comparison_runs import comparison_flags, read_result, write_complete_run

from tpo.cli import main
from tpo.cli.train_summary import tuning_lines
from tpo.llm import summary
from tpo.llm.comparison.method import methods
from tpo.llm.comparison.plan import Plan, make_plan
from tpo.llm.comparison.time_to_goal import time_to_goal
from tpo.llm.comparison.tuning import Tuning
from tpo.llm.comparison.tuning_results import choose_value, tuned_methods, tuning_runs
from tpo.llm.runs.recipe import Recipe
from tpo.reports.markdown.comparison_page import page
from tpo.reports.markdown.notes import Note
from tpo.storage.files import write_json


def test_a_method_waits_for_runs_that_failed_for_another_reason_than_its_value(place: Path) -> None:
    """A process that died, or found the GPU or the disk full, is tried again; another error counts for its value."""
    plan = Plan(Recipe("m", "gsm8k", batches=4, out=str(place)), methods("tpo,grpo"), 1,
                Tuning("learning_rate", (0.1, 0.2), seeds=1))  # fmt: skip
    tpo = plan.methods[0]
    low, high = tuning_runs(plan, tpo)
    low.folder.parent.mkdir()
    write_complete_run(low, [0.25, 0.25, 0.25])
    high.folder.mkdir()
    (high.folder / "failed.json").write_text(json.dumps({"error": "killed", "kind": "Lost"}))
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
            write_complete_run(run, [0.1, end, end])
        assert choose_value(plan, method)
    write_json(tmp_path / "comparison.json", {"plan": plan.to_dict()})
    found = summary(tmp_path)
    assert found["tuning"]["brink"] == ["tpo"]
    assert [row["nowhere"] for row in found["tuning"]["rows"]] == [1, 0, 0] * 2 + [0] * 3
    caveat = "At or beside a value with which a seed failed or did not improve, as others may: tpo."
    assert caveat in found["about"]
    assert "| TPO | 3.33 ✗ | 23.3 | 36.7 ★ |" in page("a", found, Note())


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


def test_where_no_value_improves_that_is_said_once() -> None:
    row = {"method": "tpo", "accuracy": 3.0, "error": None, "nowhere": 2, "chosen": False}
    found = {"option": "eta", "seeds": [7, 8], "edge": ["tpo"], "brink": ["tpo"],
             "rows": [row | {"value": 1.0, "chosen": True}, row | {"value": 2.0}]}  # fmt: skip
    assert tuning_lines(found)[-2].startswith("no value improved on the start with any seed")
    found["rows"][1]["nowhere"] = 1  # type: ignore[index]
    assert not any(line.startswith("no value improved") for line in tuning_lines(found))


def test_every_method_is_tuned_alike(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Three values each on two seeds that are not reported; the best is reported, one that raises is reported."""
    broken = place / "both/tuning/tpo-learning_rate-0.1-seed10000"
    broken.mkdir(parents=True)
    (broken / "recipe.json").write_text('{"model": "another"}')
    changes = {"batches": 6, "eval_every": 2, "tune": "learning_rate=1e-5,0.01,0.1", "seeds": 2}
    command = comparison_flags(place, "both", **changes, tune_batches=4)
    assert main(command) == 0
    shown = capsys.readouterr().out
    assert "learning_rate, mean sampled accuracy" in shown
    found = summary(place / "both")
    base = next(one for one in found["methods"] if one["baseline"])
    gained = base["threshold"] is not None  # a random model may end below its start
    assert ("\ngrpo reaches " in shown) == gained
    for line in time_to_goal(found["methods"]):  # the report says of rollouts what the console says
        assert line in shown
        assert line in found["about"]
    for one in found["verdicts"]:
        assert one["detail"] in shown
    assert found["progress"] == {"cells_done": 4, "cells": 4}
    _is_tuned(place, found["tuning"])
    assert "--tune learning_rate=1e-05,0.01,0.1 --tune-seeds 2 --tune-batches 4" in found["command"]
    _is_published(place)
    assert main([*command, "--resume", "--tune=learning_rate=1,2"]) == 2
    assert "holds a comparison with another tune" in capsys.readouterr().err


def _is_tuned(place: Path, tuning: dict[str, Any]) -> None:
    """Each method has its best value of three; for TPO, a run with the last one raised."""
    broken = place / "both/tuning/tpo-learning_rate-0.1-seed10000"
    assert (tuning["option"], tuning["seeds"], tuning["batches"]) == (
        "learning_rate",
        [10000, 10001],
        4,
    )
    best = {}
    for name in ("tpo", "grpo"):
        rows = {row["value"]: row for row in tuning["rows"] if row["method"] == name}
        accuracy = {}
        for value, word in ((1e-5, "1e-05"), (0.01, "0.01"), (0.1, "0.1")):
            runs = [place / f"both/tuning/{name}-learning_rate-{word}-seed1000{i}" for i in (0, 1)]
            if broken in runs:
                assert rows[value]["error"].startswith("ValueError")
                continue
            evaluations = [row for run in runs for row in read_result(run)["evaluations"]]
            assert [row["step"] for row in evaluations] == [0, 2, 4, 0, 2, 4]
            accuracy[value] = sum(100 * row["sampled"] for row in evaluations) / 6
            assert rows[value]["accuracy"] == pytest.approx(accuracy[value])
        best[name] = max(accuracy, key=lambda value: accuracy[value])
        assert [v for v, row in rows.items() if row["chosen"]] == [best[name]]
        for seed in (0, 1):
            recipe = json.loads((place / f"both/{name}-seed{seed}/recipe.json").read_text())
            assert (recipe["learning_rate"], recipe["seed"]) == (best[name], seed)
    assert tuning["edge"] == [name for name, value in best.items() if value in (1e-5, 0.1)]


def test_one_method_can_be_tuned(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        main(comparison_flags(place, "one", "tpo", batches=1, tune="learning_rate=0.001,0.01")) == 0
    )
    assert "tpo  0.01" in capsys.readouterr().out
    found = summary(place / "one")
    assert found["progress"] == {"cells_done": 1, "cells": 1}
    assert found["verdicts"] == []  # nothing to compare it with


def _is_published(place: Path) -> None:
    """The comparison as a page of the documentation, with its figure."""
    docs = place / "docs"
    assert main(["evidence", str(place / "both"), f"--docs={docs}"]) == 0
    (docs / "evidence/llm/both.md").write_text("# Two layers\n\nA model of two layers.\n")
    assert main(["evidence", f"--docs={docs}", "--check"]) == 1
    assert main(["evidence", f"--docs={docs}"]) == 0
    assert main(["evidence", f"--docs={docs}", "--check"]) == 0
    page = (docs / "research/comparisons/both.md").read_text()
    assert "# Two layers\n" in page
    assert "model on task.jsonl" in page
    assert re.search(r"^\| method \| sampled % \| greedy % \| pass@4 % \|", page, re.M)
    assert re.search(r"^\| TPO \| \S+ \\\[\S+, \S+\\\] \|", page, re.M)
    assert page.count(" ★ |") == 2  # a value each
    assert "| failed |" in page
    assert "A model of two layers." in page
    assert str(place) not in page
    drawn = ElementTree.parse(docs / "figures/llm-both.svg").getroot()
    words = [element.text for element in drawn.iter() if element.tag.endswith("text")]
    assert {"TPO", "GRPO", "rollouts", "held-out accuracy of samples"} <= set(words)

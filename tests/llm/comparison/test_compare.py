"""Comparisons of methods: their names, equal rollouts, several runs at a time, and a run that fails."""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

pytest.importorskip("trl")

from support.tiny_training import flags
from tpo.cli import main
from tpo.cli.train_summary import tuning_lines
from tpo.llm import compare, summary
from tpo.llm.comparison.method import method, methods
from tpo.llm.comparison.plan import Plan, make_plan
from tpo.llm.comparison.time_to_goal import time_to_goal
from tpo.llm.runs.recipe import Recipe
from tpo.llm.runs.trl_options import trl_config

METHODS = "tpo,tpo:eta=0.5:score=mean,grpo:epochs=2"


def comparison_flags(place: Path, out: str, compare: str = "tpo,grpo", **changes: Any) -> list[str]:
    options = {"steps": None, "batches": 2, "save_every": 0, "compare": compare, **changes}
    return [*flags(place, out, **options), "--discard-model"]


def result(run: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((run / "result.json").read_text())
    return found


def test_a_method_has_one_name_however_it_is_spelled() -> None:
    one = method("tpo:score=mean:eta=.50")
    assert one == method("tpo:eta=5e-1:score=mean")
    assert one.name == "tpo:eta=0.5:score=mean"
    assert one.folder == "tpo-eta-0.5-score-mean"
    assert one.label == "TPO eta=0.5 score=mean"
    assert method(one.name) == one
    base = Recipe("m", "gsm8k", batches=3, learning_rate=1e-3)
    made = method("grpo:epochs=4:clip=0.1").apply_to(base)
    assert (made.objective, made.epochs, made.steps) == ("grpo", 4, 12)
    assert made.objective_options == {"clip": 0.1}
    assert made.learning_rate == 1e-3
    assert trl_config(made).skip_zero_gradient
    momentum = method("grpo:skip_zero_gradient=false").apply_to(base)
    assert not trl_config(momentum).skip_zero_gradient


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("tpo,grpo:etaa=1", "objective 'grpo' has no option 'etaa'.*Options: learning_rate, epochs, beta, max_grad_norm, skip_zero_gradient, kl_correction, clip"),
        ("tpo,grpo:eta=1", "objective 'grpo' has no option 'eta'"),
        ("tpo,tppo", "unknown objective 'tppo'. Did you mean 'tpo'"),
        ("tpo:eta,grpo", "method 'tpo:eta' holds 'eta', expected OPTION=VALUE"),
        ("tpo:eta=1:eta=2,grpo", "holds eta twice"),
        ("tpo:epochs=few,grpo", "epochs is 'few', expected a whole number"),
        ("tpo:eta=1,tpo:eta=1.0", "compare holds tpo:eta=1.0 2 times"),
        ("tpo", "compare holds tpo: give two or more, such as tpo,grpo, or --tune one, or give it several --seeds"),
    ],
)  # fmt: skip
def test_wrong_methods_name_themselves(text: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        methods(text)


def test_one_method_is_planned_over_several_seeds() -> None:
    options = {"model": "m", "task": "gsm8k"}
    assert make_plan({"compare": "tpo", "seeds": 2}, options).seeds == 2
    with pytest.raises(ValueError, match="compare holds tpo: give two or more"):
        make_plan({"compare": "tpo", "seeds": 1}, options)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"batches": 0}, "needs its budget in rollout batches"),
        ({"score": "mean"}, "score is 'mean' for a comparison: say it with the method"),
        ({"trl": {"generation_batch_size": 8}}, "trl holds generation_batch_size"),
    ],
)
def test_unequal_comparisons_cannot_be_planned(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        Plan(Recipe("m", "gsm8k", **{"batches": 4, **changes}), methods("tpo,grpo"))


def test_two_at_a_time_is_what_one_at_a_time_is(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Methods with one and two epochs sample equally many completions; nothing but numbers is kept."""
    assert main([*comparison_flags(place, "one", METHODS, eval_every=1), "--eval-kl"]) == 0
    assert (
        main([*comparison_flags(place, "two", METHODS, eval_every=1), "--workers=2", "--eval-kl"])
        == 0
    )
    assert "3 of 3: " in capsys.readouterr().err
    for name, steps in {"tpo": 2, "tpo-eta-0.5-score-mean": 2, "grpo-epochs-2": 4}.items():
        runs = [place / out / f"{name}-seed0" for out in ("one", "two")]
        one, two = map(result, runs)
        assert one["evaluations"] == two["evaluations"]
        assert [row["kl"] is None for row in one["evaluations"]] == [True, True, False]
        assert (one["steps"], one["rollouts"]) == (steps, 16)
        assert one["sampled_tokens"] == 16 * 8  # a tiny random model never ends
        assert one["seconds_per_step"]["step"] > 0
        assert one["peak_memory"] is None  # no GPU
        assert [row["step"] for row in one["evaluations"]] == [0, steps // 2, steps]
        assert not [path for run in runs for path in run.rglob("*.safetensors")]
    found = summary(place / "two")
    assert found["progress"] == {"cells_done": 3, "cells": 3}
    assert [s["x"] for s in found["panels"][0]["series"]] == [[0, 8, 16]] * 3
    moved = [row for row in found["table"]["rows"] if row["metric"] == "KL from the start"]
    assert [row["n"] for row in moved] == [1, 1, 1]


def _worker_of(run: Path) -> int:
    """The process that trains this run: what it prints goes there."""
    for place in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it ended meanwhile
            if os.readlink(place / "fd/1") == str(run / "output.txt") and (
                b"spawn_main" in (place / "cmdline").read_bytes()
            ):
                return int(place.name)
    raise ProcessLookupError(run)


def test_a_run_that_fails_leaves_the_others_alone(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One run raises, another's process is killed; --resume completes both."""
    broken = place / "both/grpo-seed0"
    broken.mkdir(parents=True)
    (broken / "recipe.json").write_text('{"model": "another"}')
    command = [*comparison_flags(place, "both", batches=30), "--workers=2", "--seeds=2"]

    def kill_one() -> None:
        run = place / "both/tpo-seed0"
        while not (run / "log.jsonl").exists():
            time.sleep(0.01)
        os.kill(_worker_of(run), signal.SIGKILL)

    thread = threading.Thread(target=kill_one)
    thread.start()
    assert main(command) == 1
    thread.join()
    shown = capsys.readouterr().out
    assert "failed: grpo, seed 0: ValueError" in shown
    assert "failed: tpo, seed 0: its process died (killed by signal 9)" in shown
    assert summary(place / "both")["progress"] == {"cells_done": 2, "cells": 4}
    (broken / "recipe.json").unlink()
    assert main([*command, "--resume", "--workers=1"]) == 0
    assert summary(place / "both")["progress"] == {"cells_done": 4, "cells": 4}
    assert not list(place.glob("both/*/failed.json"))


def test_ctrl_c_stops_all_and_says_how_to_go_on(place: Path) -> None:
    code = "import sys; from tpo.cli import main; sys.exit(main(sys.argv[1:]))"
    command = [*comparison_flags(place, "both", batches=1000), "--workers=2"]
    process = subprocess.Popen(
        [sys.executable, "-c", code, *command], stderr=subprocess.PIPE, text=True, start_new_session=True
    )  # fmt: skip
    end = time.monotonic() + 120
    while len(list(place.glob("both/*/log.jsonl"))) < 2:
        assert time.monotonic() < end
        assert process.poll() is None
        time.sleep(0.01)
    os.kill(process.pid, signal.SIGINT)
    _, shown = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "stopped: the same command with --resume continues" in shown
    end = time.monotonic() + 20
    while _someone_is_left(process.pid):
        assert time.monotonic() < end
        time.sleep(0.05)


def _someone_is_left(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


def test_a_file_may_hold_the_comparison(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = place / "mine.yaml"
    path.write_text("compare: [tpo, grpo:epochs=2]\nseeds: 1\nworkers: 1\n")
    command = [*flags(place, "run", steps=None, batches=1), f"--config={path}"]
    assert main(command) == 0
    assert "grpo:epochs=2" in capsys.readouterr().out
    assert result(place / "run/grpo-epochs-2-seed0")["steps"] == 2
    assert main(flags(place, "other", compare="tpo,grpo")) == 2
    assert "give --batches instead" in capsys.readouterr().err
    assert main(flags(place, "other", seeds=2)) == 2
    assert "seeds needs a comparison: give --compare" in capsys.readouterr().err
    assert not (place / "other").exists()


def test_what_the_command_says_of_rollouts() -> None:
    timed = {"method": "tpo", "threshold": 0.42, "rollouts": 12.8, "ratio": 0.5, "baseline": False}
    never = timed | {"method": "lpo", "rollouts": None, "ratio": None}
    assert time_to_goal([timed, never]) == [
        "tpo reaches 42.0% after 13 rollouts, 0.50 of grpo's (mean accuracy over seeds)",
        "lpo reaches 42.0% never (mean accuracy over seeds)",
    ]
    best = timed | {"method": "grpo", "ratio": 1.0, "baseline": True}
    assert time_to_goal([best]) == [
        "grpo reaches 42.0% after 13 rollouts (mean accuracy over seeds)"
    ]
    assert time_to_goal([timed | {"threshold": None}]) == []


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
    tuning = found["tuning"]
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
            evaluations = [row for run in runs for row in result(run)["evaluations"]]
            assert [row["step"] for row in evaluations] == [0, 2, 4, 0, 2, 4]
            accuracy[value] = sum(100 * row["sampled"] for row in evaluations) / 6
            assert rows[value]["accuracy"] == pytest.approx(accuracy[value])
        best[name] = max(accuracy, key=lambda value: accuracy[value])
        assert [v for v, row in rows.items() if row["chosen"]] == [best[name]]
        for seed in (0, 1):
            recipe = json.loads((place / f"both/{name}-seed{seed}/recipe.json").read_text())
            assert (recipe["learning_rate"], recipe["seed"]) == (best[name], seed)
    assert tuning["edge"] == [name for name, value in best.items() if value in (1e-5, 0.1)]
    assert "--tune learning_rate=1e-05,0.01,0.1 --tune-seeds 2 --tune-batches 4" in found["command"]
    _is_published(place)
    assert main([*command, "--resume", "--tune=learning_rate=1,2"]) == 2
    assert "holds a comparison with another tune" in capsys.readouterr().err


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
    (docs / "evidence/llm-notes.md").write_text("## both\n\nA model of two layers.\n")
    assert main(["evidence", f"--docs={docs}", "--check"]) == 1
    assert main(["evidence", f"--docs={docs}"]) == 0
    assert main(["evidence", f"--docs={docs}", "--check"]) == 0
    page = (docs / "llm-results.md").read_text()
    assert "## both: model on task.jsonl" in page
    assert re.search(r"^\| method \| sampled % \| greedy % \| pass@4 % \|", page, re.M)
    assert re.search(r"^\| TPO \| \S+ \\\[\S+, \S+\\\] \|", page, re.M)
    assert page.count(" ★ |") == 2  # a value each
    assert "| failed |" in page
    assert "A model of two layers." in page
    assert str(place) not in page
    drawn = ElementTree.parse(docs / "figures/llm-both.svg").getroot()
    words = [element.text for element in drawn.iter() if element.tag.endswith("text")]
    assert {"TPO", "GRPO", "rollouts", "held-out accuracy of samples"} <= set(words)


def test_a_task_that_cannot_be_made_stops_a_comparison_before_a_model_is_read(
    tmp_path: Path,
) -> None:
    plan = make_plan(
        {"compare": "tpo,grpo"},
        {"model": "no/such/model", "task": "toy:digits", "size": 10_000, "cpu": True, "out": str(tmp_path)},
    )  # fmt: skip
    with pytest.raises(ValueError, match="held_out ask for 10100: lower them"):
        compare(plan, workers=2)
    assert not any(tmp_path.iterdir())


def test_resume_needs_a_comparison_to_go_on_with(tmp_path: Path) -> None:
    plan = make_plan({"compare": "tpo,grpo"}, {"model": "no/such/model", "task": "toy:sort", "cpu": True, "out": str(tmp_path)})  # fmt: skip
    with pytest.raises(ValueError, match=r"holds no comparison: leave --resume out"):
        compare(plan, resume=True)

"""Comparisons of methods: their names, equal rollouts, several runs at a time, and a run that fails."""

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("trl")

from comparison_runs import comparison_flags, read_result

from support.tiny_training import flags
from tpo.cli import main
from tpo.llm import compare, summary
from tpo.llm.comparison.method import method, methods
from tpo.llm.comparison.plan import Plan, make_plan
from tpo.llm.comparison.time_to_goal import time_to_goal
from tpo.llm.runs.recipe import Recipe
from tpo.llm.runs.trl_options import trl_config

METHODS = "tpo,tpo:eta=0.5:score=mean,grpo:epochs=2"


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
        ("tpo,grpo:etaa=1", "objective 'grpo' has no option 'etaa'.*Options: skip_zero_gradient, learning_rate, max_grad_norm, beta, epochs, kl_correction, clip"),
        ("tpo,grpo:eta=1", "objective 'grpo' has no option 'eta'"),
        ("tpo,tppo", "unknown objective 'tppo'. Did you mean 'tpo'"),
        ("tpo:eta,grpo", "method 'tpo:eta' holds 'eta', expected option=value"),
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
        one, two = map(read_result, runs)
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
    command = [*comparison_flags(place, "both", batches=12), "--workers=2", "--seeds=2"]

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
    assert read_result(place / "run/grpo-epochs-2-seed0")["steps"] == 2
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

"""`tpo train` from flags to a saved model, and compared, on a tiny random model; and runs that cannot start."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("trl")

from support.tiny_training import flags
from tpo.cli import main
from tpo.llm import summary
from tpo.llm.runs.artifacts import read_lines


def test_from_three_names_to_a_model_with_a_card(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(flags(place, eval_every=2, samples=1, lora=2)) == 0
    shown = capsys.readouterr()
    assert "step     3  greedy" in shown.out
    assert "step 3/3" in shown.err
    assert "->" in shown.err  # a sample
    out = place / "run"
    log = [json.loads(line) for line in (out / "log.jsonl").read_text().splitlines()]
    assert [row["step"] for row in log] == [1, 2, 3]
    assert {"reward", "target/kl", "pass@4", "reward_time", "skipped_steps"} <= set(log[0])
    steps = [
        json.loads(line)["step"] for line in (out / "evaluations.jsonl").read_text().splitlines()
    ]
    assert steps == [0, 2, 3]
    card = (out / "model/README.md").read_text()
    assert "pass@4" in card
    assert str(place) not in card
    assert (out / "model/adapter_model.safetensors").exists()
    assert not list((out / "model").glob("*.bin"))
    samples = [json.loads(line) for line in (out / "samples.jsonl").read_text().splitlines()]
    assert len(samples) == 8
    assert set(samples[0]) == {"prompt", "completion", "scores"}
    result = json.loads((out / "result.json").read_text())
    assert result["steps"] == 3
    assert result["provenance"]["versions"]["trl"]


def test_the_folder_of_a_run_is_not_overwritten(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*flags(place), "--resume"]) == 2
    assert "holds no run: leave --resume out" in capsys.readouterr().err
    assert main(flags(place, steps=1)) == 0
    assert main(flags(place, steps=1)) == 2
    assert "holds a run already: add --resume" in capsys.readouterr().err
    assert main([*flags(place, steps=2), "--resume"]) == 2
    assert "was started with another steps (1)" in capsys.readouterr().err
    assert main([*flags(place, steps=1), "--resume"]) == 0  # complete: nothing to do


def test_it_learns(place: Path) -> None:
    """60 steps raise the share of completions that hold the answer."""
    assert main(flags(place, steps=60, prompts=4, learning_rate=0.003, save_every=100)) == 0
    rows = [json.loads(x) for x in (place / "run/log.jsonl").read_text().splitlines()]
    rewards = [row["reward"] for row in rows]
    assert np.mean(rewards[-10:]) > np.mean(rewards[:10]) + 0.2


def test_compare_writes_what_the_report_reads(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = [*flags(place, "both", steps=None, batches=2), "--compare=tpo,grpo", "--seeds=2"]
    assert main(command) == 0
    assert "final accuracy %" in capsys.readouterr().out
    _has_files_of_two_methods(place / "both")
    assert main(command) == 2
    assert "holds a comparison already" in capsys.readouterr().err
    assert main([*command[:-1], "--seeds=3", "--resume"]) == 0  # one more
    assert summary(place / "both")["progress"] == {"cells_done": 6, "cells": 6}
    assert main(["report", str(place / "both"), f"--out={place / 'again.html'}"]) == 0
    assert (place / "again.md").read_text() == (place / "both/report.md").read_text()
    docs = place / "docs"
    assert main(["evidence", str(place / "both"), f"--docs={docs}"]) == 0
    results = (docs / "research/comparisons/both.md").read_text()
    assert "# both: model on task.jsonl" in results
    assert str(place) not in results
    assert main(["evidence", "--check", f"--docs={docs}"]) == 0
    assert main([*command, "--resume", "--batches=3"]) == 2
    assert "holds a comparison with another steps, batches" in capsys.readouterr().err
    assert main([*command, "--resume"]) == 0
    assert "also holds the last 1 of 3 seeds: left out of the summary" in capsys.readouterr().err
    assert summary(place / "both")["progress"] == {"cells_done": 4, "cells": 4}


def _has_files_of_two_methods(folder: Path) -> None:
    found = summary(folder)
    assert found["progress"] == {"cells_done": 4, "cells": 4}
    assert [s["method"] for s in found["panels"][0]["series"]] == ["tpo", "grpo"]
    series = found["panels"][0]["series"][0]
    assert series["x"] == [0, 8, 16]
    assert series["n"] == series["planned"] == 2
    assert np.shape(series["seeds"]) == (2, 3)
    assert series["mean"] == pytest.approx(np.mean(series["seeds"], 0))
    json.dumps(found, allow_nan=False)
    page = (folder / "report.html").read_text()
    assert "final accuracy %" in page
    assert "GRPO" in page
    with np.load(folder / "curves.npz", allow_pickle=False) as curves:
        assert curves["grpo/reward"].shape == (2, 2)
    # same seeds, same prompts: the first rollout of both objectives is the same
    first = [read_lines(folder / f"{name}-seed0/log.jsonl")[0] for name in ("tpo", "grpo")]
    assert first[0]["reward"] == first[1]["reward"]
    assert first[0]["num_tokens"] == first[1]["num_tokens"]


def test_a_missing_vllm_is_named(
    place: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a probe too, which does not sample with it: the run that follows would."""
    monkeypatch.setattr("tpo.cli.doctor.installed", lambda name: None if "vllm" in name else "1")
    for more in ([], ["--probe"]):
        assert main([*flags(place), "--vllm", *more]) == 2
        assert "--vllm needs vllm: pip install vllm" in capsys.readouterr().err
    assert not (place / "run").exists()


@pytest.mark.parametrize(
    "own", [{"steps": 1}, {"steps": None, "batches": 1, "compare": "tpo,grpo"}]
)
def test_a_scorer_that_fails_on_everything_ends_the_run_before_training(
    place: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    own: dict[str, Any],
) -> None:
    (place / "broken.py").write_text(
        "def score(completion, answer):\n    raise OSError('no disk')\n"
    )
    monkeypatch.setenv("PYTHONPATH", f"{place}:{os.environ.get('PYTHONPATH', '')}")
    with pytest.warns(RuntimeWarning, match="could not be scored"):
        assert main(flags(place, scorer="broken:score", **own)) == 2
    said = capsys.readouterr().err.splitlines()[-1]
    assert said.startswith("tpo: scorer 'broken:score' scored none of the 20 completions before")
    assert "(raised: OSError: no disk): fix the scorer" in said
    assert not any(map(read_lines, (place / "run").rglob("log.jsonl")))
    assert main(flags(place, **own)) == 0  # with another scorer, in the same folder


@pytest.mark.parametrize("compare", [[], ["--compare=tpo,grpo"]])
def test_a_folder_that_is_taken_is_named_before_torch_is_imported(
    place: Path, compare: list[str]
) -> None:
    name = "comparison.json" if compare else "recipe.json"
    (place / "run").mkdir()
    (place / "run" / name).write_text("{}")
    script = (
        "import sys; from tpo.cli import main; status = main(sys.argv[1:]); "
        "assert not {'torch', 'transformers', 'datasets', 'trl'} & {*sys.modules}; sys.exit(status)"
    )
    given = [*flags(place, steps=None), *compare]
    done = subprocess.run(
        [sys.executable, "-c", script, *given], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "already: add --resume" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_what_cannot_start_leaves_no_run(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The mistake is named, and the corrected command needs neither --resume nor another folder."""
    (place / "empty").mkdir()
    for changes, words in [
        ({"model": place / "modle"}, "modle does not exist: give a folder, a .gguf file, or a hub name"),
        ({"model": place / "empty"}, "is a folder without config.json"),
        ({"scorer": "no_such:score"}, "scorer 'no_such:score' cannot be loaded (ModuleNotFoundError"),
        ({"scorer": "json:score"}, "cannot be loaded (AttributeError"),
        ({"scorer": "math:sqrt"}, "by position: too many positional arguments): give module:function that Python finds from here, of (completion, answer)"),
        ({"objective": "vapo"}, "'vapo' needs a critic"),
        ({"trl": '{"max_grad_nrm": 1}'}, "trl holds 'max_grad_nrm', which is not an option of TRL's GRPOConfig. Did you mean 'max_grad_norm'?"),
        ({"trl": '{"max_grad_norm": 2}'}, "trl holds 'max_grad_norm', which is an option of its own"),
        ({"trl": '{"top_entropy_quantile": 0.2}'}, "Set top_entropy_quantile=1.0"),
        ({"trl": '{"off_policy_mask_threshold": 0.2}'}, "Set off_policy_mask_threshold=None"),
        ({"trl": '{"parallelism_config": {"cp_size": 2}}'}, "Set cp_size=1"),
        ({"trl": '{"generation_batch_size": 6}'}, "(generation_batch_size=6), so a group would be split: make it 4 or 8"),
        ({"steps": None, "compare": "tpo,vapo"}, "'vapo' needs a critic"),  # before tpo is trained
        ({"report_to": "no_such"}, "report-to is 'no_such', expected none, all, or loggers"),
    ]:  # fmt: skip
        assert main(flags(place, **changes)) == 2
        assert words in capsys.readouterr().err
    assert not (place / "run").exists()

"""`tpo train --resume`: a run that was interrupted continues, and says how."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("trl")
import torch
from safetensors.torch import load_file

from support.tiny_training import flags
from tpo.cli import main
from tpo.cli.train import _how_to_resume, _how_to_resume_comparison
from tpo.llm.comparison.method import methods
from tpo.llm.comparison.plan import Plan
from tpo.llm.runs.recipe import Recipe
from tpo.llm.runs.train import check_folder


def _weights(folder: Path) -> dict[str, torch.Tensor]:
    return load_file(folder / "model/model.safetensors")


def test_killed_and_resumed_ends_with_the_same_weights(place: Path) -> None:
    """SIGKILL after a checkpoint, at no particular moment of a step; then --resume."""
    changes = {"steps": 8, "held_out": 1}
    assert main(flags(place, "whole", **changes)) == 0
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    command = [
        sys.executable,
        "-c",
        "import sys; from tpo.cli import main; sys.exit(main(sys.argv[1:]))",
    ]
    process = subprocess.Popen(
        [*command, *flags(place, "killed", **changes)], env=environment, stderr=subprocess.DEVNULL, start_new_session=True
    )  # fmt: skip
    checkpoints = place / "killed/checkpoints"
    end = time.monotonic() + 120
    while not list(checkpoints.glob("checkpoint-[2-5]/trainer_state.json")):
        assert time.monotonic() < end
        assert process.poll() is None
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    assert not (place / "killed/result.json").exists()
    assert main([*flags(place, "killed", **changes), "--resume"]) == 0
    whole, killed = _weights(place / "whole"), _weights(place / "killed")
    assert all(torch.equal(whole[name], killed[name]) for name in whole)
    logs = [json.loads(x)["step"] for x in (place / "killed/log.jsonl").read_text().splitlines()]
    assert logs == list(range(1, 9))  # no step lost, none twice
    evaluations = [(place / f"{run}/evaluations.jsonl").read_text() for run in ("whole", "killed")]
    assert evaluations[0] == evaluations[1]


@pytest.mark.filterwarnings("ignore:a completion could not be scored:RuntimeWarning")
def test_a_resumed_run_continues_to_count(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Seconds, failures and zero-gradient steps are those of both parts, in result.json and the card."""
    (place / "picky.py").write_text(
        "def score(completion, answer):\n"
        "    return int(completion) if '1' in completion.split()[0] else 0.0\n"
    )
    monkeypatch.setenv("PYTHONPATH", f"{place}:{os.environ.get('PYTHONPATH', '')}")
    command = flags(place, steps=4, save_every=2, scorer="picky:score")
    assert main(command) == 0
    whole = json.loads((place / "run/result.json").read_text())
    assert whole["zero_gradient_steps"] == 4
    (place / "run/result.json").unlink()
    shutil.rmtree(place / "run/checkpoints/checkpoint-4")
    at = place / "run/checkpoints/checkpoint-2/trainer_state.json"
    state = json.loads(at.read_text())
    kept = state["stateful_callbacks"]
    assert (
        0
        < sum(kept["tpo_counters"]["failures"][0].values())
        < sum(whole["reward_failures"].values())
    )
    kept["tpo_seconds"]["seconds"] += 1000
    at.write_text(json.dumps(state))
    assert main([*command, "--resume"]) == 0
    result = json.loads((place / "run/result.json").read_text())
    for name in ("zero_gradient_steps", "skipped_steps", "skips", "reward_failures"):
        assert result[name] == whole[name]
    assert 1000 < result["seconds"] < 1000 + 2 * whole["seconds"] + 60
    card = (place / "run/model/README.md").read_text()
    assert f"{result['seconds']:.0f} seconds" in card


def test_a_checkpoint_without_counters_is_resumed_from_0(place: Path) -> None:
    """One that was written before they were kept."""
    assert main(flags(place)) == 0
    (place / "run/result.json").unlink()
    shutil.rmtree(place / "run/checkpoints/checkpoint-3")
    at = place / "run/checkpoints/checkpoint-2/trainer_state.json"
    state = json.loads(at.read_text())
    del state["stateful_callbacks"]["tpo_counters"], state["stateful_callbacks"]["tpo_seconds"]
    at.write_text(json.dumps(state))
    assert main([*flags(place), "--resume"]) == 0
    result = json.loads((place / "run/result.json").read_text())
    assert (result["steps"], result["skipped_steps"]) == (3, 0)


def test_resuming_inside_a_rollout_batch_is_warned_about(place: Path) -> None:
    """Two epochs per batch, killed after the first: TRL samples again, and the warning says how to avoid it."""
    changes: dict[str, Any] = {"steps": 4, "epochs": 2, "held_out": 1}
    assert main(flags(place, "first", **changes)) == 0
    out = place / "first"
    (out / "result.json").unlink()
    (out / "checkpoints/checkpoint-4/trainer_state.json").write_text(
        "{"
    )  # killed while it was written
    with pytest.warns(
        UserWarning, match="resumed at step 3, inside a rollout batch.*multiple of 2"
    ):
        assert main([*flags(place, "first", **changes), "--resume"]) == 0


def test_what_stopped_says_how_to_resume(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    chosen = Recipe("m", "toy:sort", out=str(place / "run"))
    assert _how_to_resume(chosen) == "the run had not begun; the same command starts it"
    chosen.checkpoints.mkdir(parents=True)
    (place / "run/recipe.json").write_text("{}")
    assert _how_to_resume(chosen).endswith("--resume starts the run again")
    (chosen.checkpoints / "checkpoint-9").mkdir()  # incomplete
    assert _how_to_resume(chosen).endswith("--resume starts the run again")
    (chosen.checkpoints / "checkpoint-9/trainer_state.json").write_text("{}")
    assert _how_to_resume(chosen).endswith(f"from the last checkpoint in {chosen.checkpoints}")
    plan = Plan(replace(chosen, batches=60), methods("tpo,grpo"), 1)
    assert (
        _how_to_resume_comparison(plan)
        == "the comparison had not begun; the same command starts it"
    )
    (place / "run/comparison.json").write_text("{}")
    assert _how_to_resume_comparison(plan).endswith(
        "resume from their last checkpoint, if there is one"
    )
    short = replace(plan, recipe=replace(chosen, batches=40))
    assert _how_to_resume_comparison(short).endswith("continues; unfinished runs start again")
    elsewhere = replace(chosen, trl={"output_dir": str(place / "scratch")})
    assert elsewhere.config().output_dir == str(elsewhere.checkpoints) == str(place / "scratch")
    with pytest.raises(ValueError, match="holds a comparison: choose another --out"):
        check_folder(chosen, place / "run", resume=False)
    assert main(flags(place, compare="tpo,grpo", steps=None, batches=1)) == 2
    assert "holds a single run: choose another --out" in capsys.readouterr().err

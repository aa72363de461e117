"""Every file of a run, broken in every way: named with the way out, or set aside; never a traceback."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("trl")
import torch
from safetensors.torch import load_file

from support.broken_files import CORRUPTIONS, broken
from support.tiny_training import flags, prepare
from tpo.cli import main
from tpo.llm.runs import train
from tpo.llm.runs.checkpoints import broken_file, newest_whole

NOT_READ = {"training_args.bin"}
"""Files of a checkpoint that a resume does not read."""
CHANGES: dict[str, Any] = {"eval_every": 1, "steps": 4}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a complete run of four steps, whose last two checkpoints are kept."""
    folder = prepare(tmp_path_factory.mktemp("broken"))
    assert main(flags(folder, **CHANGES)) == 0
    return folder


def _interrupted(place: Path, name: str) -> Path:
    """A copy of the run as it is before its end."""
    shutil.copytree(place / "run", place / name)
    (place / name / "result.json").unlink()
    return place / name


@pytest.mark.parametrize("corruption", CORRUPTIONS)
def test_a_checkpoint_with_a_broken_file_falls_back(place: Path, corruption: str) -> None:
    folder = place / "run/checkpoints"
    newest, before = folder / "checkpoint-4", folder / "checkpoint-3"
    names = sorted(path.name for path in newest.iterdir())
    assert {"optimizer.pt", "rng_state.pth", "model.safetensors", "trainer_state.json"} < {*names}
    fell_back = set()
    for name in names:
        with broken(newest / name, corruption):
            found, messages = newest_whole(folder)
            if found == before:
                assert name in messages[0]
                assert "set aside as broken-checkpoint-4" in messages[0]
                (folder / "broken-checkpoint-4").replace(newest)
                fell_back.add(name)
    assert fell_back == set(names) - NOT_READ
    assert newest_whole(folder) == (newest, [])


def test_a_checkpoint_without_a_part_or_with_another_step_falls_back(place: Path) -> None:
    folder = place / "run/checkpoints"
    newest, aside = folder / "checkpoint-4", folder / "broken-checkpoint-4"
    for name in ("optimizer.pt", "scheduler.pt", "rng_state.pth", "model.safetensors"):
        (newest / name).replace(folder / name)
        found, (message,) = newest_whole(folder)
        assert found == folder / "checkpoint-3"
        assert "it has no" in message
        aside.replace(newest)
        (folder / name).replace(newest / name)
    state = newest / "trainer_state.json"
    content = state.read_text()
    state.write_text(content.replace('"global_step": 4', '"global_step": 2'))
    assert "holds step 2, expected 4" in newest_whole(folder)[1][0]
    aside.replace(newest)
    state.write_text(content)
    archive = newest / "optimizer.pt"
    whole = archive.read_bytes()
    middle = len(whole) // 2
    archive.write_bytes(whole[:middle] + bytes([whole[middle] ^ 1]) + whole[middle + 1 :])
    assert "checksum" in str(broken_file(newest))  # one bit
    archive.write_bytes(whole)


def test_an_incomplete_checkpoint_is_removed(place: Path) -> None:
    """A kill left it; under its name transformers would count it among those to keep."""
    incomplete = place / "run/checkpoints/checkpoint-9"
    incomplete.mkdir()
    (incomplete / "model.safetensors").touch()
    assert newest_whole(incomplete.parent) == (place / "run/checkpoints/checkpoint-4", [])
    assert not incomplete.exists()


@pytest.mark.parametrize("corruption", CORRUPTIONS)
def test_a_broken_file_of_a_run_is_named(
    place: Path, corruption: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:  # fmt: skip
    """In one line, with the way out, before anything is trained."""

    def not_here(*_: Any) -> None:
        raise ValueError("would train")

    monkeypatch.setattr(train, "prepare_training", not_here)
    unfinished = _interrupted(place, f"unfinished-{corruption}")
    (unfinished / "micro_batch.json").write_text(json.dumps({"micro_batch": 4}))
    (unfinished / "revisions.json").write_text(json.dumps({"task": "gsm8k@abc"}))
    for folder, files in (
        (place / "run", ("recipe.json", "result.json")),
        (unfinished, ("recipe.json", "log.jsonl", "evaluations.jsonl", "micro_batch.json", "revisions.json", "samples.jsonl")),
    ):  # fmt: skip
        for name in files:
            like_a_kill = name.endswith(".jsonl") and corruption in ("empty", "half")
            with broken(folder / name, corruption):
                assert main([*flags(place, folder.name, **CHANGES), "--resume"]) == 2
            (line,) = capsys.readouterr().err.splitlines()
            if name == "samples.jsonl" or like_a_kill:
                assert line == "tpo: would train"
            else:
                assert f"{folder / name}" in line
                assert ": remove it" in line or ": restore it, or " in line
    assert main([*flags(place, **CHANGES), "--resume"]) == 0
    (place / "run/recipe.json").rename(place / "recipe.json")
    assert main(flags(place, **{**CHANGES, "steps": 9})) == 2  # not the result of the other recipe
    assert "holds result.json without recipe.json" in capsys.readouterr().err
    (place / "recipe.json").rename(place / "run/recipe.json")


@pytest.mark.parametrize("corruption", CORRUPTIONS)
def test_a_broken_file_of_options_is_named(
    place: Path, corruption: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = place / "options.yaml"
    path.write_text('steps: 3\ntask_options: {length: 4, "spread": 1}\n')
    with broken(path, corruption):
        assert main([*flags(place, "other"), f"--config={path}"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert str(path) in line


def test_a_resume_goes_on_from_what_is_whole(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """From the checkpoint before the broken one, or from the start; to the same weights."""
    weights = load_file(place / "run/model/model.safetensors")
    for name, damaged, words in (
        ("one", ["checkpoint-4"], "resuming from"),
        ("all", ["checkpoint-3", "checkpoint-4"], "no checkpoint in"),
    ):
        run = _interrupted(place, name)
        for checkpoint in damaged:
            (run / "checkpoints" / checkpoint / "optimizer.pt").write_bytes(b"")
        (run / "evaluations.jsonl").write_bytes(b"")
        assert main([*flags(place, name, **CHANGES), "--resume"]) == 0
        said = capsys.readouterr().err
        assert all(f"{checkpoint} is broken, set aside as" in said for checkpoint in damaged)
        assert words in said
        assert ("has no row of 4 steps before the checkpoint" in said) == (name == "one")
        ended = load_file(run / "model/model.safetensors")
        assert all(torch.equal(weights[key], ended[key]) for key in weights)


def test_a_run_that_was_killed_after_its_last_step_takes_no_further_one(place: Path) -> None:
    """It has its last checkpoint, and neither the last evaluation nor result.json."""
    killed = _interrupted(place, "last")
    shutil.rmtree(killed / "model")
    *before, _ = (killed / "evaluations.jsonl").read_bytes().splitlines(keepends=True)
    (killed / "evaluations.jsonl").write_bytes(b"".join(before))
    assert main([*flags(place, "last", **CHANGES), "--resume"]) == 0
    for name in ("log.jsonl", "evaluations.jsonl", "model/model.safetensors"):
        assert (killed / name).read_bytes() == (place / "run" / name).read_bytes(), name
    assert json.loads((killed / "result.json").read_text())["steps"] == CHANGES["steps"]

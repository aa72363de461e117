"""`tpo train` from flags to a saved model, resumed and compared, on a tiny random model."""

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("trl")
import torch
from safetensors.torch import load_file

from support.tiny_training import flags
from tpo.cli import main, parser
from tpo.cli.train import _how_to_resume, _how_to_resume_comparison
from tpo.llm.comparison.method import methods
from tpo.llm.comparison.plan import Plan
from tpo.llm.runs import models
from tpo.llm.runs.artifacts import read_lines
from tpo.llm.runs.models import save_whole
from tpo.llm.runs.recipe import Recipe, command_flags, read_yaml, recipe
from tpo.llm.runs.train import check_folder


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


def test_compare_writes_what_the_report_reads(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from tpo.llm import summary

    command = [*flags(place, "both", steps=None, batches=2), "--compare=tpo,grpo", "--seeds=2"]
    assert main(command) == 0
    assert "final accuracy %" in capsys.readouterr().out
    found = summary(place / "both")
    assert found["progress"] == {"cells_done": 4, "cells": 4}
    assert [s["method"] for s in found["panels"][0]["series"]] == ["tpo", "grpo"]
    series = found["panels"][0]["series"][0]
    assert series["x"] == [0, 8, 16]
    assert series["n"] == series["planned"] == 2
    assert np.shape(series["seeds"]) == (2, 3)
    assert series["mean"] == pytest.approx(np.mean(series["seeds"], 0))
    json.dumps(found, allow_nan=False)
    page = (place / "both/report.html").read_text()
    assert "final accuracy %" in page
    assert "GRPO" in page
    with np.load(place / "both/curves.npz", allow_pickle=False) as curves:
        assert curves["grpo/reward"].shape == (2, 2)
    # same seeds, same prompts: the first rollout of both objectives is the same
    first = [json.loads((place / f"both/{n}-seed0/log.jsonl").read_text().splitlines()[0]) for n in ("tpo", "grpo")]  # fmt: skip
    assert first[0]["reward"] == first[1]["reward"]
    assert first[0]["num_tokens"] == first[1]["num_tokens"]
    assert main(command) == 2
    assert "holds a comparison already" in capsys.readouterr().err
    assert main([*command[:-1], "--seeds=3", "--resume"]) == 0  # one more
    assert summary(place / "both")["progress"] == {"cells_done": 6, "cells": 6}
    assert main(["report", str(place / "both"), f"--out={place / 'again.html'}"]) == 0
    assert (place / "again.md").read_text() == (place / "both/report.md").read_text()
    docs = place / "docs"
    assert main(["evidence", str(place / "both"), f"--docs={docs}"]) == 0
    results = (docs / "llm-results.md").read_text()
    assert "## both: model on task.jsonl" in results
    assert str(place) not in results
    assert main(["evidence", "--check", f"--docs={docs}"]) == 0
    assert main([*command, "--resume", "--batches=3"]) == 2
    assert "holds a comparison with another steps, batches" in capsys.readouterr().err
    assert main([*command, "--resume"]) == 0
    assert "also holds the last 1 of 3 seeds: left out of the summary" in capsys.readouterr().err
    assert summary(place / "both")["progress"] == {"cells_done": 4, "cells": 4}


@pytest.mark.parametrize(("trl", "rates"), [({}, [1, 1, 1]), ({"warmup_steps": 2}, [0, 0.5, 1])])
def test_the_rate_is_constant_and_warms_up_if_asked(
    trl: dict[str, Any], rates: list[float]
) -> None:
    import torch
    from transformers import get_scheduler

    config = Recipe("m", "gsm8k", cpu=True, trl=trl).config()
    optimiser = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=1.0)
    schedule = get_scheduler(config.lr_scheduler_type, optimiser, config.get_warmup_steps(10), 10)
    found = []
    for _ in rates:
        found += schedule.get_last_lr()
        optimiser.step()
        schedule.step()
    assert found == rates


def test_yaml_and_presets(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("model: m\ntask: gsm8k\nsteps: 7\nlearning_rate: 3.0e-5\n")
    made = recipe({"steps": 9}, read_yaml(str(path)))
    assert (made.steps, made.learning_rate) == (9, 3e-5)
    # the paper's recipe for GSM8K
    assert (made.prompts, made.group_size, made.lora, made.beta) == (16, 16, 32, 1e-3)
    assert recipe({"model": "m", "task": "gym:graph_color"}) == Recipe(
        "m", "gym:graph_color", learning_rate=1e-5
    )
    path.write_text("modle: m\n")
    assert main(["train", "--config", str(path)]) == 2
    assert "unknown option 'modle'. Did you mean 'model'?" in capsys.readouterr().err
    path.write_text("compar: tpo,grpo\n")
    assert main(["train", "--config", str(path)]) == 2
    assert "unknown option 'compar'. Did you mean 'compare'?" in capsys.readouterr().err
    path.write_text("model: m\ntask: gsm8k\ncompare: tpo,grpo\nseeds: three\n")
    assert main(["train", "--config", str(path)]) == 2
    assert "seeds is 'three', expected a whole number" in capsys.readouterr().err
    path.write_text("- a\n")
    assert main(["train", "--config", str(path)]) == 2
    assert "holds a list, expected option: value lines" in capsys.readouterr().err
    assert main(["train", "--model", "m"]) == 2
    assert "task is missing: give --task" in capsys.readouterr().err
    # YAML reads 1e-5 as text, for want of a point; a file may name a preset
    path.write_text("model: m\ntask: gsm8k\nlearning_rate: 1e-5\nsteps: '7'\npreset: small\n")
    made = recipe({}, read_yaml(str(path)))
    assert (made.learning_rate, made.steps, made.group_size) == (1e-5, 7, 8)
    assert recipe({}, read_yaml(str(path)), "paper").group_size == 16
    for line, words in {
        "steps: many": "steps is 'many', expected a whole number",
        "steps: 2.5": "steps is 2.5, expected a whole number",
        "vllm: 1": "vllm is 1, expected true or false",
        "trl: [1]": "trl is [1], expected name: value pairs",
    }.items():
        path.write_text(f"model: m\ntask: gsm8k\n{line}\n")
        assert main(["train", "--config", str(path)]) == 2
        assert words in capsys.readouterr().err


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (["--task=toy:sort", "--scorer=exact"], "scorer is 'exact', and the task toy:sort does not take it: it takes task_options, size"),
        (["--task=toy:sort", "--hint=Hurry."], "hint is 'Hurry.', and the task toy:sort"),
        (["--task=gsm8k", "--size=5"], "size is 5, and the task gsm8k does not take it: it takes hint"),
        (["--task=a.jsonl", '--task-options={"a": 1}'], "task_options is {'a': 1}, and the task a.jsonl"),
        (["--task=toy:sort", "--batches=0"], "batches is 0, expected at least 1"),
        (["--task=toy:sort", "--compare=tpo,grpo", "--tune=eta=1,2", "--tune-batches=0"], "tune_batches is 0"),
        (["--task=toy:sort", "--compare=tpo,grpo", "--objective=lpo"], "name it among the methods of --compare"),
    ],
)  # fmt: skip
def test_what_would_be_ignored_is_refused(
    given: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["train", "--model=m", *given]) == 2
    assert words in capsys.readouterr().err


def test_a_missing_vllm_is_named(
    place: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a probe too, which does not sample with it: the run that follows would."""
    monkeypatch.setattr("tpo.cli.doctor.installed", lambda name: None if "vllm" in name else "1")
    for more in ([], ["--probe"]):
        assert main([*flags(place), "--vllm", *more]) == 2
        assert "--vllm needs vllm: pip install vllm" in capsys.readouterr().err
    assert not (place / "run").exists()


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


def test_the_flags_of_a_recipe_make_it_again() -> None:
    given = {"model": "m", "task": "gym:chain_sum", "task_options": {"max_terms": 2}, "steps": 7, "lora": 4,
             "drop_truncated": True, "hint": "Be brief.", "trl": {"warmup_steps": 3}}  # fmt: skip
    made = recipe(given)
    parsed = vars(parser().parse_args(["train", *shlex.split(command_flags(made))]))
    assert recipe({k: v for k, v in parsed.items() if k in made.to_dict()}) == made
    assert "--prompts" not in command_flags(made)  # the preset's own
    made = recipe(
        {
            "model": "m",
            "task": "t",
            "batches": 5,
            "epochs": 4,
            "scorers": 8,
            "discard_model": True,
        }
    )
    assert made.steps == 20
    parsed = vars(parser().parse_args(["train", *shlex.split(command_flags(made))]))
    assert recipe({k: v for k, v in parsed.items() if k in made.to_dict()}) == made


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


def test_a_file_in_the_place_of_the_folder_is_named(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("")
    for out in ("taken", "taken/below"):
        with pytest.raises(ValueError, match=r"--out is .*taken is a file: give a folder"):
            check_folder(Recipe("m", "gsm8k", out=str(tmp_path / out)), tmp_path / out, False)


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


def test_an_interrupted_conversion_leaves_no_folder(tmp_path: Path) -> None:
    """What says that a model was converted is written before its weights."""

    class Part:
        def __init__(self, name: str) -> None:
            self.name = name

        def save_pretrained(self, folder: Path) -> None:
            if not self.name:
                raise KeyboardInterrupt
            (folder / self.name).touch()

    base = tmp_path / "base"
    with pytest.raises(KeyboardInterrupt):
        save_whole(base, {}, Part("config.json"), Part(""))
    assert not base.exists()
    save_whole(base, {}, Part("config.json"), Part("weights"))
    assert [path.name for path in tmp_path.iterdir()] == ["base"]
    assert len(list(base.iterdir())) == 3


def test_another_file_is_converted_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder may hold the model of a run that never began, or of a probe."""
    converted: list[str] = []

    def convert(source: Path, folder: Path) -> None:
        converted.append(source.name)
        save_whole(folder, models._source_record(source))

    monkeypatch.setattr(models, "_convert", convert)
    for name, text in (("a.gguf", "1"), ("a.gguf", "1"), ("b.gguf", "1"), ("b.gguf", "12")):
        (tmp_path / name).write_text(text)
        assert models.local_copy(str(tmp_path / name), tmp_path / "base") == str(tmp_path / "base")
    assert converted == ["a.gguf", "b.gguf", "b.gguf"]


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
        ({"report_to": "no_such"}, "no_such is not supported, only"),
    ]:  # fmt: skip
        assert main(flags(place, **changes)) == 2
        assert words in capsys.readouterr().err
    assert not (place / "run").exists()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"group_size": 1}, "group_size is 1: a group needs at least 2"),
        (
            {"micro_batch": 7},
            "micro_batch is 7 on 1 processes.*256 completions: set micro_batch=16",
        ),
        ({"micro_batch": 100}, "256 completions: set micro_batch=64"),
        ({"steps": 0}, "steps is 0, expected at least 1"),
        ({"micro_batch": 0}, "micro_batch is 0, expected at least 1"),
        ({"lora": -1}, "lora is -1, expected 0 or more"),
        ({"temperature": 0}, "temperature is 0, expected a number above 0"),
    ],
)
def test_recipes_that_cannot_run(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        Recipe("m", "gsm8k", **changes)

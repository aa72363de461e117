"""Recipes: presets, YAML, flags, and options that are refused."""

import shlex
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("trl")
import torch

from tpo.cli import main, parser
from tpo.cli.flags.yaml_file import read_yaml
from tpo.llm.runs.folders import check_folder
from tpo.llm.runs.recipe import Recipe, command_flags, recipe


@pytest.mark.parametrize(("trl", "rates"), [({}, [1, 1, 1]), ({"warmup_steps": 2}, [0, 0.5, 1])])
def test_the_rate_is_constant_and_warms_up_if_asked(
    trl: dict[str, Any], rates: list[float]
) -> None:
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
        "vllm: 1": "vllm is 1, expected True or False",
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
        (["--task=toy:sort", "--compare=tpo,grpo", "--tune=eta=1,2", "--tune-batches=0"], "--tune-batches is '0'"),
        (["--task=toy:sort", "--compare=tpo,grpo", "--objective=lpo"], "name it among the methods of --compare"),
    ],
)  # fmt: skip
def test_what_would_be_ignored_is_refused(
    given: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["train", "--model=m", *given]) == 2
    assert words in capsys.readouterr().err


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
    ("changes", "words"),
    [
        ({"group_size": 1}, "group_size is 1, and objective 'tpo' compares the candidates"),
        (
            {"group_size": 1, "objective": "reinforce"},
            "TRL's trainer needs at least 2 for any objective",
        ),
        (
            {"micro_batch": 7},
            "micro_batch is 7 on 1 processes.*256 completions: set micro_batch=16",
        ),
        ({"micro_batch": 100}, "256 completions: set micro_batch=64"),
        ({"steps": 0}, "steps is 0, expected a whole number from 1"),
        ({"micro_batch": 0}, "micro_batch is 0, expected a whole number from 1"),
        ({"lora": -1}, "lora is -1, expected a whole number from 0"),
        ({"temperature": 0}, "temperature is 0, expected a finite number above 0"),
    ],
)
def test_recipes_that_cannot_run(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        Recipe("m", "gsm8k", **changes)


def test_a_file_in_the_place_of_the_folder_is_named(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("")
    for out in ("taken", "taken/below"):
        with pytest.raises(ValueError, match=r"--out is .*taken is a file: give a folder"):
            check_folder(Recipe("m", "gsm8k", out=str(tmp_path / out)), tmp_path / out, False)

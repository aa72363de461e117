"""Every option of every command refuses every kind of wrong value in one line, before JAX or torch is imported."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.refusals import answers, problems
from tpo.cli import parser
from tpo.cli.completion import commands_of

HUGE, LONG = "9" * 40, "x" * 300
NOT_A_NUMBER = ["x", "", " ", "nan", "inf", "-inf", "1e999", "1,5", "[1]", "True"]
NOT_WHOLE = [*NOT_A_NUMBER, "1.5", "-1", HUGE]
WRONG = {
    "count": [*NOT_WHOLE, "0"],
    "two": [*NOT_WHOLE, "0", "1"],
    "whole": NOT_WHOLE,
    "finite": NOT_A_NUMBER,
    "positive": [*NOT_A_NUMBER, "0", "-1"],
    "limit": [*NOT_A_NUMBER, "0", "-1", "1000001", "1e10", "1e19", "1e300", HUGE],
    "nonnegative": [*NOT_A_NUMBER, "-1"],
    "choice": ["", "x", "1", "nan", LONG],
    "table": ["", "x", "[1]", "{", "1", "null", '{"a": 1'],
    "name": ["", " "],
    "loggers": ["", " ", "nothing", "wandb,", "wandb,nothing", "none,wandb", "all,all", LONG],
    "names": ["", ",", "a,,b"],
    "axis": ["", "H", "H=", "=7", "H=7="],
    "address": ["", "x", "x:y", ":6379"],
    "out folder": ["", "a\nb", "a_file", "a_file/below", LONG],
    "out file": ["", "a\nb", "a_folder", "a_file/below", LONG],
    "table file": ["", "a\nb", "a_folder", "a_file/below", "missing/below", LONG],
    "file": ["", "a\nb", "a_folder", "missing", LONG],
    "file or nothing": ["a_folder", "missing", LONG],
    "folder": ["", "a\nb", "a_file", "missing", LONG],
    "path": ["", "a\nb", "missing", "a_file/below", LONG],
    "override": ["", "x", "=1"],
    "text": [],
}
"""Values that no option of the kind accepts."""

ACCEPTS = {
    **dict.fromkeys(("target", "reward", "optimiser", "match", "engine", "extract", "isolate"), "choice"),
    **dict.fromkeys(("preset", "score", "suite", "recipe", "print_completion"), "choice"),
    **dict.fromkeys(("seeds", "horizon", "group_size", "batch", "epochs", "episodes"), "count"),
    **dict.fromkeys(("chunk", "workers", "prompts", "steps", "micro_batch", "size"), "count"),
    **dict.fromkeys(("max_tokens", "held_out", "eval_samples", "scorers"), "count"),
    **dict.fromkeys(("tune_seeds", "tune_batches"), "count"),
    **dict.fromkeys(("vocab", "arms"), "two"),
    **dict.fromkeys(("seed_offset", "delay", "evaluate_every", "batches", "lora"), "whole"),
    **dict.fromkeys(("seed", "eval_every", "save_every", "samples"), "whole"),
    **dict.fromkeys(("learning_rate", "eta", "temperature"), "positive"),
    **dict.fromkeys(("timeout", "scorer_memory", "scorer_cpu"), "limit"),
    **dict.fromkeys(("max_grad_norm", "beta"), "nonnegative"),
    **dict.fromkeys(("trl", "task_options", "objective_options"), "table"),
    **dict.fromkeys(("model", "task", "objective", "scorer", "compare"), "name"),
    **dict.fromkeys(("study", "scale", "tune"), "name"),
    "report_to": "loggers", "threshold": "finite", "hint": "text", "methods": "names", "only": "axis", "sweep": "axis", "docs": "out folder",
    "address": "address", "log": "choice", "out": "out folder", "data": "out folder",
    "csv": "table file", "mnist_path": "file or nothing", "config": "file", "overrides": "override",
}  # fmt: skip
"""What an option accepts, as a user knows it from the manual; not read from the code."""
BY_COMMAND = {
    ("run", "save_every"): "nonnegative",
    ("demo", "scale"): "choice",
    ("compare", "save_every"): "nonnegative",
    ("report", "out"): "out file",
    ("train", "sweep"): "name",
    ("report", "folders"): "path",
    ("evidence", "folders"): "folder",
}
"""Where a name means something else for one command."""

BASE = {
    "run": ["--methods", "tpo"],
    "train": ["--model", "a_model", "--task", "toy:sort"],
    "verl": ["gsm8k"],
}
"""What a command needs besides, so that the wrong value is its only mistake."""


def options() -> Iterator[tuple[str, argparse.Action]]:
    """Each command with each of its options; "" is `tpo` itself."""
    top = parser()
    for command, of in {"": top, **commands_of(top)}.items():
        for action in of._actions:
            if action.dest not in ("help", "version") and not isinstance(
                action, argparse._SubParsersAction
            ):
                yield command, action


def kind(command: str, action: argparse.Action) -> str:
    return BY_COMMAND.get((command, action.dest)) or ACCEPTS[action.dest]


def command_with(command: str, dest: str, *words: str) -> list[str]:
    """The command with these words, after what else it needs; the last of two values counts."""
    base = [] if dest == "recipe" else BASE.get(command, [])
    return [*([command] if command else []), *base, *words]


def test_every_option_refuses_wrong_values(place: Path) -> None:
    cases = []
    for command, action in options():
        for flag in action.option_strings or [""]:
            if action.nargs == 0:
                cases.append(
                    (command_with(command, action.dest, f"{flag}=1"), [flag, "takes no value"])
                )
                continue
            for value in WRONG[kind(command, action)]:
                said = [flag or str(action.metavar or action.dest), "expected"]
                word = f"{flag}={value}" if flag else value
                cases.append((command_with(command, action.dest, word), said))
    assert len(cases) > 900
    assert not (found := problems(cases, place)), "\n".join(found)


def test_a_missing_value_and_a_misspelt_flag_are_named(place: Path) -> None:
    cases = []
    for command, action in options():
        for flag in action.option_strings:
            if action.nargs != 0:
                cases.append(
                    (command_with(command, action.dest, flag), [flag, "needs a value, expected"])
                )
            misspelt = [f"{flag}x=1", *([] if command else ["doctor"])]
            cases.append((command_with(command, action.dest, *misspelt), [f"unknown flag {flag}x"]))
            if command:  # what is missing is not said first
                cases.append(([command, f"{flag}x=1"], [f"unknown flag {flag}x"]))
    assert len(cases) > 200
    assert not (found := problems(cases, place)), "\n".join(found)


def test_a_right_value_is_not_refused(place: Path) -> None:
    """What the commands above are refused for is the one wrong value: without it they begin to work."""
    commands = [
        ["run", *BASE["run"]],
        ["run", "terminal"],
        ["run", "terminal", "--methods", "tpo:eta=0.5,grpo", "--only", "H=7,8", "--seeds", "3"],
        ["compare"],
        ["demo"],
        ["train", *BASE["train"]],
        ["train", *BASE["train"], "--compare", "tpo:eta=0.5,grpo", "--tune", "learning_rate=1e-5,1e-4"],
    ]  # fmt: skip
    for command, answer in zip(commands, answers(commands, place), strict=True):
        assert str(answer.status).startswith("import "), (command, answer)


def test_isolation_that_does_not_work_is_refused_at_once(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(place))
    command = ["train", *BASE["train"], "--isolate", "bwrap"]
    said = ["isolate is 'bwrap', and the command bwrap was not found", "isolate none"]
    assert not (found := problems([(command, said)], place)), "\n".join(found)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder with a file, a folder, and what looks like a model."""
    (tmp_path / "a_file").write_text("")
    (tmp_path / "a_folder").mkdir()
    (tmp_path / "a_model").mkdir()
    (tmp_path / "a_model/config.json").write_text('{"model_type": "llama"}')
    if os.geteuid():  # root can write everywhere
        (tmp_path / "closed").mkdir(0o500)
    return tmp_path

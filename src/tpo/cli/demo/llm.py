"""`tpo demo --llm`: TPO beside GRPO on a language model of 0.9M parameters, through TRL on a CPU."""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tpo.cli.demo.shared import Clock, show
from tpo.cli.train import need_packages

if TYPE_CHECKING:
    from tpo.llm.comparison.plan import Plan

FOLDER = Path("results") / "demo-llm"
METHODS = "tpo,grpo"
MOST_WORKERS = 4
"""Runs at a time; each takes about 0.7 GB of memory."""
LLM_FULL = (
    "The learning rate matters more than this demo shows. On a model without right answers in its pretraining, "
    "with 16 x 16 rollouts in each of 60 batches (3 seeds, small_equal), TPO ends at 67% and GRPO at 52% at "
    "2e-4; at 1e-4 TPO ends at 49% and GRPO at 62%."
)
"""What the same task gives with more rollouts, as committed evidence has it."""


@dataclass(frozen=True)
class Setting:
    """The model's pretraining, the seeds, and options of the recipe, equal for both methods."""

    pretraining: Mapping[str, Any]
    seeds: int
    options: Mapping[str, Any]
    workers: int | None = None
    """runs at a time; None: one per core, up to MOST_WORKERS"""


RECIPE = {
    "task": "toy:reverse",
    "task_options": {"length": 4, "examples": 0},
    "max_tokens": 6,
    "prompts": 8,
    "group_size": 16,
    "micro_batch": 128,
    "batches": 30,
    "epochs": 4,
    "learning_rate": 1e-4,
    "held_out": 64,
    "eval_every": 5,
    "eval_samples": 4,
    "save_every": 0,
    "discard_model": True,
    "scorers": 1,
    "cpu": True,
}
QUICK = Setting({"letters": 4, "right": 0.25, "steps": 300}, 3, RECIPE)
SMALLEST = {"batches": 2, "eval_every": 1, "prompts": 2, "group_size": 4, "micro_batch": 8}
SMOKE = Setting(
    {"letters": 4, "right": 0.25, "steps": 2},
    1,
    RECIPE | SMALLEST | {"size": 20, "held_out": 6},
    workers=1,
)
SCALES = {"smoke": SMOKE, "quick": QUICK}


def main(args: argparse.Namespace) -> int:
    """Pretrain the model, train both methods with every seed; print the table and the report's path."""
    need_packages("tpo demo --llm")
    folder = Path(args.out or FOLDER)
    setting = setting_of(args)
    plan = plan_of(setting, folder / f"seed{args.seed_offset}", folder / "small-model", args)
    resumes = (plan.folder / "comparison.json").exists()
    _check(plan, resumes)
    print(introduction(plan, setting))
    began = time.monotonic()
    try:
        with one_thread():
            pretrain(folder / "small-model", setting)
            summary = train(plan, setting.workers or usual_workers(), resumes)
    except KeyboardInterrupt:
        print(f"\nstopped: {what_is_kept(plan)}", file=sys.stderr)
        return 130
    return finish(plan, summary, time.monotonic() - began, args.open)


def setting_of(args: argparse.Namespace) -> Setting:
    """The setting of a scale, with the seeds that were asked for."""
    if args.scale not in SCALES:
        raise ValueError(f"--scale is {args.scale!r}; with --llm it is one of {', '.join(SCALES)}")
    found = SCALES[args.scale]
    return found if args.seeds is None else replace(found, seeds=args.seeds)


def plan_of(setting: Setting, out: Path, model: Path, args: argparse.Namespace) -> Plan:
    """The comparison; its runs are in `out`."""
    from tpo.llm.comparison.plan import make_plan

    if args.seed_offset < 0:
        raise ValueError(f"--seed-offset is {args.seed_offset}, expected 0 or more")
    options = {
        **setting.options, "model": str(model), "out": str(out), "seed": args.seed_offset
    }  # fmt: skip
    return make_plan({"compare": METHODS, "seeds": setting.seeds}, options)


def _check(plan: Plan, resumes: bool) -> None:
    """Name a folder that does not fit, before torch is imported."""
    from tpo.llm.runs.folders import check_comparison

    check_comparison(plan, resumes)


def introduction(plan: Plan, setting: Setting) -> str:
    """The model, the task, and what is equal for both methods."""
    recipe, shown = plan.recipe, setting.pretraining
    letters = recipe.task_options["length"]
    batches = (
        f"{recipe.batches} batches of {recipe.prompts} prompts x {recipe.group_size} completions"
    )
    seeds = f"{plan.seeds} seed{'s' if plan.seeds > 1 else ''}"
    return (
        f"Model: 0.9M parameters, pretrained here for {shown['steps']} steps on the letters of a question "
        f"in random order,\nand in {shown['right']:.0%} of the examples in the right one.\n"
        f"Task: reverse {letters} letters. A completion scores 1 if it is right, and 0 if not.\n"
        f"Equal for both: {batches}, {recipe.epochs} epochs per batch,\n"
        f"AdamW at {recipe.learning_rate:g}, {seeds}. "
        "Both are trained by TargetPolicyTrainer, on TRL's GRPOTrainer."
    )


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """One thread of torch: with matrices this small, several mostly wait for each other."""
    import torch

    usual = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(usual)


def pretrain(folder: Path, setting: Setting) -> None:
    """Make the model, or say that it is there already."""
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    from transformers.utils import logging

    from tpo.llm import small_model

    logging.disable_progress_bar()
    data = small_model.Pretraining(**setting.pretraining)
    if small_model.is_pretrained(folder, data):
        print(f"Pretraining: done by an earlier start, in {folder}")
        return
    clock = Clock(data.steps, starting="starting")

    def on_step(step: int, loss: float) -> None:
        if step % max(1, data.steps // 5) == 0:
            print(f"Pretraining: step {step}/{data.steps}, loss {loss:.2f}, {clock.left(step)}",
                  flush=True)  # fmt: skip

    small_model.pretrain(folder, data, on_step)


def usual_workers() -> int:
    """Runs at a time on this machine."""
    return max(2, min(os.cpu_count() or 1, MOST_WORKERS))


def train(plan: Plan, workers: int, resumes: bool) -> dict[str, Any]:
    """Train what is not finished, and return the comparison's summary."""
    from tpo.cli.demo.llm_live import LiveRuns
    from tpo.llm.comparison.run import compare

    with LiveRuns(plan):
        return compare(plan, workers, resumes)


def what_is_kept(plan: Plan) -> str:
    """What an interrupted demo leaves, and how to go on."""
    runs = [plan.run(method, seed) for seed in plan.reported_seeds for method in plan.methods]
    done = sum((run.folder / "result.json").exists() for run in runs)
    if not Path(plan.recipe.model).exists():
        return (
            "the model was not pretrained yet, and nothing is kept. The same command starts again"
        )
    return (
        f"the pretrained model and {done} of {len(runs)} runs are kept in {plan.folder.parent}. The same "
        "command resumes; unfinished runs start again"
    )


def finish(plan: Plan, summary: Mapping[str, Any], seconds: float, in_browser: bool) -> int:
    """Print the results, or what failed; write the report."""
    from tpo.cli.demo.llm_results import print_results, sentences
    from tpo.reports import write_studies

    if summary["failures"]:
        failed = "; ".join(f"{one['run']}: {one['error']}" for one in summary["failures"])
        print(f"failed: {failed}. The same command tries again", file=sys.stderr)
        return 1
    print_results(plan)
    print("\n".join(sentences(plan, summary)))
    print(LLM_FULL)
    show(write_studies([dict(summary)], plan.folder / "report.html"), seconds, in_browser)
    return 0

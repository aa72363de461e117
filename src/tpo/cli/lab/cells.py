"""From the flags of `tpo run` without a study to its cells, one per method."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import tpo
from tpo.user_code import is_spec, split_options

if TYPE_CHECKING:
    from tpo.lab.tasks import Task
    from tpo.lab.training import Cell, Method

TASKS = ("sequences", "digits", "mnist", "bandit")


def cells_of(args: argparse.Namespace) -> Mapping[str, Cell]:
    """The requested cells, one per method; files of the user's are read first, before JAX is imported."""
    names = ("tpo" if args.methods is None else args.methods).split(",")
    if "" in names:
        raise ValueError(
            f"--methods is {args.methods!r}, expected names with commas between, such as tpo,grpo"
        )
    for name in names:
        _check_own(name)
    task = _task(args)
    return {name: _cell(name, task, args) for name in names}


def _check_own(method: str) -> None:
    """Load the objective of `FILE.py:CLASS:option=value`, if it is one, with its options."""
    from tpo.lab.studies.method_specs import parse

    name, options = parse(method)
    if is_spec(name):
        tpo.objective(name, **{k: v for k, v in options.items() if k not in OF_RUN})


def settings_of(args: argparse.Namespace, task: Task) -> dict[str, Any]:
    """What is equal for every method of a run; options at their usual value are left out."""
    found = {
        "batch": args.batch,
        "group_size": args.group_size,
        "episodes": args.episodes,
        "seeds": 1 if args.seeds is None else args.seeds,
        "optimiser": args.optimiser or ("muon" if task.length > 1 else "adam"),
        "learning_rate": args.learning_rate,
    }
    unusual = {"match": "prompts", "delay": 0, "evaluate_every": 0, "epochs": None}
    return found | {
        k: getattr(args, k) for k, usual in unusual.items() if getattr(args, k) != usual
    }


def command_of(args: argparse.Namespace) -> str:
    """The command that repeats the run, without where it is saved and shown."""
    words = ["tpo", "run"]
    for name, usual in {"methods": None, "seeds": None, "seed_offset": 0, **CELL_FLAGS}.items():
        value = getattr(args, name)
        if value != usual and name != "chunk":
            words += [f"--{name.replace('_', '-')}", str(value)]
    return shlex.join(words)


CELL_FLAGS = {
    "task": None, "horizon": 10, "vocab": 2, "target": "reverse_copy", "reward": "terminal",
    "arms": 10, "mnist_path": "", "group_size": 8, "batch": 100, "epochs": None, "episodes": 500,
    "optimiser": None, "learning_rate": 1e-3, "match": "prompts", "delay": 0, "evaluate_every": 0,
    "chunk": None,
}  # fmt: skip
"""Flags of a run without a study, and their defaults: a study does not take them."""


OF_RUN = ("epochs", "optimiser")
"""Options of a method that are not its objective's."""


def _cell(name: str, task: Task, args: argparse.Namespace) -> Cell:
    from tpo.lab.studies.method_specs import parse
    from tpo.lab.training import Budget, Cell, Measures, Optimiser, Staleness

    objective, options = parse(name)
    usual = "muon" if task.length > 1 else "adam"
    optimiser = options.get("optimiser") or args.optimiser or usual
    cell = Cell(
        task,
        _method(name, task, args),
        Budget(
            args.batch, args.episodes, 1 if args.seeds is None else args.seeds, args.seed_offset
        ),
        Optimiser(optimiser, args.learning_rate),
        staleness=Staleness(args.delay, anchor="learner" if objective == "tpo" else "actor"),
        measures=Measures(args.evaluate_every),
    )
    return cell.interaction_matched(args.group_size) if args.match == "interactions" else cell


def _method(name: str, task: Task, args: argparse.Namespace) -> Method:
    """The method with --group-size and, where its own options name none, --epochs."""
    from tpo.lab.studies.method_specs import bandit_method, parse, sequence_method

    found = sequence_method(name, args.group_size) if task.length > 1 else bandit_method(name)
    own = parse(name)[1].get("epochs")
    epochs = args.epochs if own is None else own
    return replace(
        found,
        rollout=replace(found.rollout, group_size=args.group_size),
        epochs=found.epochs if epochs is None else epochs,
    )


def _task(args: argparse.Namespace) -> Task:
    from tpo.lab.own_tasks import own_task

    name = args.task or "sequences"
    if is_spec(split_options(name)[0]):
        return own_task(name)
    if name not in TASKS:
        raise ValueError(
            f"--task is {name!r}, expected one of {', '.join(TASKS)}, or a class of yours as FILE.py:CLASS"
        )
    from tpo.lab.tasks import Bandit, Digits, Sequences

    if name == "sequences":
        return Sequences(args.horizon, args.vocab, args.target, args.reward)
    if name == "bandit":
        return Bandit(args.arms)
    return Digits(name, args.mnist_path)

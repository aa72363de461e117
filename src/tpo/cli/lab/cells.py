"""From the flags of `tpo run` without a study to its cells, one per method."""

from __future__ import annotations

import argparse
import contextlib
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import tpo
from tpo.cli.flags.kinds import DOWNLOADED_FILE
from tpo.lab.names import OPTIMISERS, REWARDS, TARGETS
from tpo.objectives.base import check_group_size
from tpo.options import COUNT, POSITIVE, WHOLE, Kind, one_of, whole
from tpo.user_code import is_spec, split_options

if TYPE_CHECKING:
    from tpo.lab.tasks import Task
    from tpo.lab.training import Cell, Method

TASKS = ("sequences", "digits", "mnist", "bandit")
CELL_OPTIONS: tuple[tuple[str, Kind, Any, str | None, str | None], ...] = (
    ("--horizon", COUNT, 10, "H", "tokens to produce"),
    ("--vocab", whole(2), 2, "V", None),
    ("--target", one_of(*TARGETS), "reverse_copy", None, "copy, flip, reverse_copy, ..."),
    ("--reward", one_of(*REWARDS), "terminal", None, "bag, sequential or terminal"),
    ("--arms", whole(2), 10, None, "arms of the bandit"),
    ("--mnist-path", DOWNLOADED_FILE, "", None, "an .npz of MNIST (default: download it)"),
    ("--group-size", COUNT, 8, "K", None),
    ("--batch", COUNT, 100, "B", "contexts per batch"),
    ("--epochs", COUNT, None, None, "epochs per batch (default: the method's)"),
    ("--episodes", COUNT, 500, None, None),
    (
        "--optimiser",
        one_of(*OPTIMISERS),
        None,
        None,
        "muon, muon_fading, adam, ... (default: the paper's)",
    ),
    ("--learning-rate", POSITIVE, 1e-3, None, None),
    (
        "--match",
        one_of("prompts", "interactions"),
        "prompts",
        None,
        "prompts or interactions: what methods of one rollout per prompt have as many of as group methods",
    ),
    ("--delay", WHOLE, 0, None, "episodes by which the actor lags"),
    ("--evaluate-every", WHOLE, 0, None, "episodes between held-out tests"),
)
"""Flags of a run without a study: what each accepts, its default, how usage shows the value, its help."""


def cells_of(args: argparse.Namespace) -> Mapping[str, Cell]:
    """The requested cells, one per method; names and options are checked before JAX is imported."""
    names = ("tpo" if args.methods is None else args.methods).split(",")
    for name in names:
        _check_objective(name)
    if is_spec(split_options(args.task or TASKS[0])[0]):
        for name in names:
            _check_method(name)
    else:
        _check_library_task(names, args)
    task = _task(args)
    return {name: _cell(name, task, args) for name in names}


def _check_objective(method: str) -> None:
    """Read `FILE.py:CLASS:option=value`, if it is one: a task of a file may import JAX."""
    from tpo.lab.studies.method_specs import CRITIC, parse

    name, options = parse(method)
    if is_spec(name):
        own = {k: v for k, v in options.items() if k not in OF_RUN and not k.startswith(CRITIC)}
        tpo.objective(name, **own)


def _check_method(method: str) -> None:
    """A method for a task of one's own, of which it is not known yet how many actions it takes."""
    from tpo.lab.studies.method_specs import bandit_row, sequence_row

    try:
        sequence_row(method)
    except (TypeError, ValueError) as error:
        with contextlib.suppress(TypeError, ValueError):
            bandit_row(method)
            return
        raise error from None


def _check_library_task(methods: Sequence[str], args: argparse.Namespace) -> None:
    """Every name and number of a run on a task of the library."""
    from tpo.lab.studies.method_specs import bandit_row, sequence_row

    task = args.task or TASKS[0]
    TASK.check("--task", task)
    of_task = sequence_row if task == "sequences" and args.horizon > 1 else bandit_row
    for method in methods:
        row = of_task(method)
        if row.kind in GROUPED:
            check_group_size(row.objective, "--group-size", args.group_size)
        if row.kind == "token" and args.reward == "terminal":
            raise ValueError(
                f"method {method!r} scores each token when it is taken, and --reward terminal waits for "
                "the end: give --reward bag or sequential, or a method without _token"
            )


TASK = replace(
    one_of(*TASKS), accepts=f"one of {', '.join(TASKS)}, or a class of yours as FILE.py:CLASS"
)
GROUPED = ("sequence", "token")
"""Kinds of rollout whose groups have --group-size candidates."""


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
    "task": None,
    **{flag[2:].replace("-", "_"): default for flag, _, default, *_ in CELL_OPTIONS},
    "chunk": None,
}
"""Flags of a run without a study, and their defaults: a study does not take them."""


OF_RUN = ("epochs", "optimiser")
"""Options of a method that are not its objective's."""


def _cell(name: str, task: Task, args: argparse.Namespace) -> Cell:
    from tpo.lab.studies.method_specs import bandit_row, parse, sequence_row
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
        critic=(sequence_row if task.length > 1 else bandit_row)(name).critic,
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
    from tpo.lab.tasks import Bandit, Digits, Sequences

    if name == "sequences":
        return Sequences(args.horizon, args.vocab, args.target, args.reward)
    if name == "bandit":
        return Bandit(args.arms)
    return Digits(name, args.mnist_path)

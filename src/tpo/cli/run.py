"""`tpo run`: train one cell per method, with progress, checkpoints and a final table."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

import tpo
from tpo.user_code import is_spec, split_options

if TYPE_CHECKING:
    from tpo.lab.tasks import Task
    from tpo.lab.training import Cell, Method, TrainingProgress
    from tpo.storage.store import Curves, Store

TASKS = ("sequences", "digits", "mnist", "bandit")


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """`tpo run`"""
    command = commands.add_parser("run", help="train one or more methods on a task, over seeds")
    _add_study_flags(command)
    _add_cell_flags(command)
    _add_execution_flags(command)
    command.set_defaults(run=main)


def _add_study_flags(command: argparse.ArgumentParser) -> None:
    """What to run: a study, its methods and seeds."""
    command.add_argument("study", nargs="?", help="a study by name (`tpo studies`), or all")
    command.add_argument(
        "--methods",
        help="comma-separated NAME[:option=value] or FILE.py:CLASS[:option=value] "
        "(default: the study's, or tpo)",
    )
    command.add_argument("--scale", help="of a study: smoke, quick or full (default quick)")
    command.add_argument(
        "--only",
        action="append",
        metavar="KEY=VALUES",
        help="a part of the study's grid, such as H=7 or K=4,8",
    )
    command.add_argument("--seeds", type=int, help="number of seeds (default: the study's, or 1)")
    command.add_argument(
        "--seed-offset", type=int, default=0, metavar="N", help="first seed (default 0)"
    )


def _add_cell_flags(command: argparse.ArgumentParser) -> None:
    """A run without a study: its task and training."""
    command.add_argument(
        "--task",
        metavar="TASK",
        help=f"task of a run without a study: {', '.join(TASKS)}, or FILE.py:CLASS[:option=value] "
        "(default sequences)",
    )
    command.add_argument("--horizon", type=int, default=10, metavar="H", help="tokens to produce")
    command.add_argument("--vocab", type=int, default=2, metavar="V")
    command.add_argument("--target", default="reverse_copy", help="copy, flip, reverse_copy, ...")
    command.add_argument("--reward", default="terminal", help="bag, sequential or terminal")
    command.add_argument("--arms", type=int, default=10, help="arms of the bandit")
    command.add_argument("--mnist-path", default="", help="an .npz of MNIST (default: download it)")
    command.add_argument("--group-size", type=int, default=8, metavar="K")
    command.add_argument("--batch", type=int, default=100, metavar="B", help="contexts per batch")
    command.add_argument("--epochs", type=int, help="epochs per batch (default: the method's)")
    command.add_argument("--episodes", type=int, default=500)
    command.add_argument("--optimiser", help="muon, muon_fading, adam, ... (default: the paper's)")
    command.add_argument("--learning-rate", type=float, default=1e-3)
    command.add_argument("--match", choices=("prompts", "interactions"), default="prompts")
    command.add_argument("--delay", type=int, default=0, help="episodes by which the actor lags")
    command.add_argument(
        "--evaluate-every", type=int, default=0, help="episodes between held-out tests"
    )


def _add_execution_flags(command: argparse.ArgumentParser) -> None:
    """Where to run and to save."""
    command.add_argument(
        "--out", metavar="DIR", help="folder of results; an earlier run there is resumed"
    )
    command.add_argument(
        "--resume", action="store_true", help="resume from --out, which must exist"
    )
    command.add_argument("--chunk", type=int, help="episodes between progress updates")
    command.add_argument("--save-every", type=float, default=20.0, metavar="SECONDS")
    command.add_argument(
        "--engine",
        default="local",
        help="where a study runs, with the same numbers: local or ray (default local)",
    )
    command.add_argument(
        "--workers",
        type=int,
        metavar="N",
        help="of a study: parallel workers (default 1; with ray, all resources)",
    )
    command.add_argument(
        "--address",
        help="of a Ray cluster, as HOST:PORT (default: RAY_ADDRESS, or a new cluster here)",
    )


def main(args: argparse.Namespace) -> int:
    """Run every cell and show a table."""
    if args.study:
        from tpo.cli import run_study

        return run_study.main(args)
    if args.scale or args.only:
        raise ValueError("--scale and --only are for a study: tpo run STUDY --scale ...")
    if args.workers is not None or args.address or args.engine != "local":
        raise ValueError(
            "--engine, --workers and --address are for a study: tpo run STUDY --workers ..."
        )
    if args.methods is None and args.task is None:
        raise ValueError(
            "name a study (`tpo studies` lists them), or give the methods of a run of your own, such as: "
            "tpo run --methods tpo,grpo --horizon 7"
        )
    cells = cells_of(args)
    store = _store(args)
    try:
        curves = run_all(cells, store, args)
    except KeyboardInterrupt:
        _print_how_to_resume(store)
        return 130
    show(curves)
    if store:
        print(f"saved in {store.folder}")
    return 0


def cells_of(args: argparse.Namespace) -> Mapping[str, Cell]:
    """The requested cells, one per method; files of the user's are read first, before JAX is imported."""
    names = (args.methods or "tpo").split(",")
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


def _store(args: argparse.Namespace) -> Store | None:
    from pathlib import Path

    from tpo.storage.store import Store

    if args.resume and not (args.out and Path(args.out).exists()):
        raise ValueError(
            f"--resume needs --out with the folder of an earlier run, and {args.out!r} does not exist"
        )
    return Store(args.out) if args.out else None


def run_all(
    cells: Mapping[str, Cell], store: Store | None, args: argparse.Namespace
) -> dict[str, Curves]:
    """The curves of every cell, with a line of progress for each."""
    from tpo.lab.training import Pace, run

    pace = Pace(chunk=args.chunk, save_every=args.save_every)
    curves: dict[str, Curves] = {}
    with _progress() as progress:
        for name, cell in cells.items():
            line = progress.add_task(name, total=cell.budget.episodes, rate="", error="compiling")

            def watch(state: TrainingProgress, line: Any = line) -> None:
                error = float(_errors(state.curves)[:, -1].mean())
                rate = f"{state.rate:.1f}/s"
                done = state.episode
                progress.update(line, completed=done, rate=rate, error=f"error {error:.4f}")

            curves[name] = run(cell, store, watch, pace)
            progress.update(line, completed=cell.budget.episodes, error="done")
    return curves


@contextmanager
def _progress() -> Iterator[Any]:
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn("{task.description:14}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rate]}"),
        TextColumn("{task.fields[error]}"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True)) as progress:
        yield progress


def _errors(curves: Curves) -> np.ndarray:
    """The error to show: on held-out contexts if measured, else of the training rollouts."""
    test = curves.get("test_error")
    if test is None:
        return curves["error"]
    measured = test[:, ~np.isnan(test).all(0)]
    return measured if measured.shape[1] else curves["error"]


def show(curves: Mapping[str, Curves]) -> None:
    """A table of the errors of each method, over seeds."""
    from rich.console import Console
    from rich.table import Table

    table = Table(title="error, over seeds")
    for column in ("method", "last", "median", "last 100", "best", "steps to 1%"):
        table.add_column(column, justify="left" if column == "method" else "right")
    for name, found in curves.items():
        table.add_row(name, *_row(_errors(found)))
    Console().print(table)


def _row(errors: np.ndarray) -> tuple[str, ...]:
    mean = errors.mean(0)
    below = np.flatnonzero(mean < 0.01)
    numbers = (mean[-1], np.median(errors[:, -1]), mean[-100:].mean(), mean.min())
    return (*(f"{x:.4f}" for x in numbers), str(below[0] + 1) if len(below) else "never")


def _print_how_to_resume(store: Store | None) -> None:
    if store is None:
        print("\nstopped; nothing was saved, because no --out was given", file=sys.stderr)
    else:
        print(
            f"\nstopped; what is done so far is in {store.folder}. "
            "Run the same command again to resume",
            file=sys.stderr,
        )

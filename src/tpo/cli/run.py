"""`tpo run`: train one cell per method, with progress, checkpoints and a final table."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from tpo.cli.lab.cells import TASKS, cells_of
from tpo.cli.lab.display import run_all, show

if TYPE_CHECKING:
    from tpo.storage.store import Store


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


def _store(args: argparse.Namespace) -> Store | None:
    from pathlib import Path

    from tpo.storage.store import Store

    if args.resume and not (args.out and Path(args.out).exists()):
        raise ValueError(
            f"--resume needs --out with the folder of an earlier run, and {args.out!r} does not exist"
        )
    return Store(args.out) if args.out else None


def _print_how_to_resume(store: Store | None) -> None:
    if store is None:
        print("\nstopped; nothing was saved, because no --out was given", file=sys.stderr)
    else:
        print(
            f"\nstopped; what is done so far is in {store.folder}. "
            "Run the same command again to resume",
            file=sys.stderr,
        )

"""`tpo run`: train one cell per method, with progress, checkpoints and a final table."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from tpo.cli.flags.kinds import ADDRESS, AXIS, METHODS, OUT_FOLDER, SERVICE
from tpo.cli.flags.parser import reads
from tpo.cli.lab import outputs
from tpo.cli.lab.cells import CELL_OPTIONS, TASKS, cells_of, command_of, settings_of
from tpo.cli.lab.display import run_all, show
from tpo.cli.lab.logs import check_service, opened
from tpo.options import COUNT, NAME, NONNEGATIVE, WHOLE, one_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tpo.lab.studies import Study
    from tpo.lab.training import Cell
    from tpo.reports import Results
    from tpo.storage.store import Curves, Store


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """`tpo run`"""
    command = commands.add_parser("run", help="train one or more methods on a task, over seeds")
    _add_study_flags(command)
    _add_cell_flags(command)
    _add_execution_flags(command)
    outputs.add_output_flags(command)
    command.add_argument(
        "--log",
        type=reads(SERVICE),
        metavar="SERVICE",
        help="log the curves of a run without a study: tensorboard, wandb or wandb:PROJECT",
    )
    command.set_defaults(run=main)


def _add_study_flags(command: argparse.ArgumentParser) -> None:
    """What to run: a study, its methods and seeds."""
    command.add_argument(
        "study",
        nargs="?",
        type=reads(NAME),
        help="a study by name (`tpo studies`), FILE.py:NAME, or all",
    )
    command.add_argument(
        "--methods",
        type=reads(METHODS),
        help="comma-separated NAME[:option=value] or FILE.py:CLASS[:option=value] "
        "(default: the study's, or tpo)",
    )
    command.add_argument(
        "--scale", type=reads(NAME), help="of a study: smoke, quick or full (default quick)"
    )
    command.add_argument(
        "--only",
        action="append",
        type=reads(AXIS),
        metavar="KEY=VALUES",
        help="a part of the study's grid, such as H=7 or K=4,8",
    )
    command.add_argument(
        "--seeds", type=reads(COUNT), help="number of seeds (default: the study's, or 1)"
    )
    command.add_argument(
        "--seed-offset", type=reads(WHOLE), default=0, metavar="N", help="first seed (default 0)"
    )


def _add_cell_flags(command: argparse.ArgumentParser) -> None:
    """A run without a study: its task and training."""
    command.add_argument(
        "--task",
        type=reads(NAME),
        metavar="TASK",
        help=f"task of a run without a study: {', '.join(TASKS)}, or FILE.py:CLASS[:option=value] "
        "(default sequences)",
    )
    for flag, kind, default, symbol, text in CELL_OPTIONS:
        command.add_argument(flag, type=reads(kind), default=default, metavar=symbol, help=text)


def _add_execution_flags(command: argparse.ArgumentParser) -> None:
    """Where to run and to save."""
    command.add_argument(
        "--out",
        type=reads(OUT_FOLDER),
        metavar="DIR",
        help="folder of results; an earlier run there is resumed",
    )
    command.add_argument(
        "--resume", action="store_true", help="resume from --out, which must exist"
    )
    command.add_argument("--chunk", type=reads(COUNT), help="episodes between progress updates")
    command.add_argument("--save-every", type=reads(NONNEGATIVE), default=20.0, metavar="SECONDS")
    command.add_argument(
        "--engine",
        type=reads(one_of("local", "ray")),
        default="local",
        help="where a study runs, with the same numbers: local or ray (default local)",
    )
    command.add_argument(
        "--workers",
        type=reads(COUNT),
        metavar="N",
        help="of a study: parallel workers (default 1; with ray, all resources)",
    )
    command.add_argument(
        "--address",
        type=reads(ADDRESS),
        help="of a Ray cluster, as HOST:PORT (default: RAY_ADDRESS, or a new cluster here)",
    )


def main(args: argparse.Namespace) -> int:
    """Run every cell and show a table."""
    outputs.check(args)
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
    _check_resume(args)
    check_service(args.log)
    cells = cells_of(args)
    study = _study(cells, args)
    store = _store(args)
    folder = (store.folder if store else Path("results")) / "tensorboard"
    log = opened(args.log, folder, dict(study.settings))
    if store:
        _write_manifest(store, study, cells, args)
    try:
        curves = run_all(cells, store, args, log)
    except KeyboardInterrupt:
        _print_how_to_resume(store)
        return 130
    finally:
        log.close()
    if not outputs.is_quiet(args):
        show(curves)
    if args.json or args.csv:
        outputs.emit(_results(study, curves, args), args)
    if store:
        outputs.say(f"saved in {store.folder}; figures: tpo report {store.folder}", args)
    return 0


def _study(cells: Mapping[str, Cell], args: argparse.Namespace) -> Study:
    from tpo.lab.studies.own_runs import study_of

    task = next(iter(cells.values())).task
    return study_of(list(cells), task, settings_of(args, task))


def _write_manifest(
    store: Store, study: Study, cells: Mapping[str, Cell], args: argparse.Namespace
) -> None:
    from tpo.lab.execution.worker import Worker
    from tpo.lab.studies.own_runs import write_manifest

    write_manifest(store, study, cells, command_of(args), Worker(0.0).machine().device)


def _results(study: Study, curves: Mapping[str, Curves], args: argparse.Namespace) -> Results:
    """What this command ran, and not what else is in the folder."""
    from tpo.reports import Results
    from tpo.reports.notebook.results import in_memory
    from tpo.reports.summary import summary

    return Results((summary(in_memory(study, curves, command_of(args))),))


def _check_resume(args: argparse.Namespace) -> None:
    if args.resume and not (args.out and Path(args.out).exists()):
        raise ValueError(
            f"--resume needs --out with the folder of an earlier run, and {args.out!r} does not exist"
        )


def _store(args: argparse.Namespace) -> Store | None:
    from tpo.storage.store import Store

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

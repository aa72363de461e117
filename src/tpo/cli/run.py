"""`tpo run`: a study, or runs of your own, with progress, checkpoints and a final table."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tpo.cli import run_study
from tpo.cli.flags.parser import reads
from tpo.cli.lab.run_flags import add_execution_flags, add_own_flags, add_study_flags
from tpo.lab.studies import sweeps
from tpo.lab.studies.own_runs import SCALE, OwnRun
from tpo.options import NAME, declared

if TYPE_CHECKING:
    from tpo.lab.execution.jobs import Request


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """`tpo run`"""
    command = commands.add_parser("run", help="run a study, or methods on a task, over seeds")
    command.add_argument(
        "study",
        nargs="?",
        type=reads(NAME),
        help="a study by name (`tpo studies`), FILE.py:NAME, or all",
    )
    add_study_flags(command)
    add_own_flags(command)
    add_execution_flags(command)
    command.set_defaults(run=main)


def main(args: argparse.Namespace) -> int:
    """Run the jobs of the study, or of a study made of the options."""
    own = {name: value for name, value in vars(args).items() if name in declared(OwnRun)}
    if args.study:
        for name in own:
            raise ValueError(
                f"--{name.replace('_', '-')} is for a run without a study; a study takes --scale, "
                "--seeds, --methods, --only and --sweep"
            )
        return run_study.main(args)
    if args.scale or args.only:
        raise ValueError("--scale and --only are for a study: tpo run STUDY --scale ...")
    if args.methods is None and "task" not in own:
        raise ValueError(
            "name a study (`tpo studies` lists them), or give the methods of a run of your own, such as: "
            "tpo run --methods tpo,grpo --horizon 7"
        )
    if args.resume and not args.out:
        raise ValueError("--resume needs --out with the folder of an earlier run")
    return run_study.start(args, lambda: [own_request(own, args)])


def own_request(own: Mapping[str, Any], args: argparse.Namespace) -> Request:
    """A study of one setting, or of a sweep; names and options are checked before JAX is imported."""
    run = OwnRun(**own)
    methods = run_study.method_names(args.methods or "tpo")
    run.check_methods(methods)
    over = sweeps.axes("own", args.sweep or ())
    run.check_of_task({**own, **over})
    study = sweeps.swept(run.study(methods, args.seeds or 1), over)
    from tpo.lab.execution.jobs import Request  # with JAX

    return Request(study, SCALE, first_seed=args.seed_offset, asked=command_of(run, args))


def command_of(run: OwnRun, args: argparse.Namespace) -> str:
    """The command that repeats the run, without where it is saved and shown."""
    words = ["tpo", "run", *(["--methods", args.methods] if args.methods else [])]
    words += ["--seeds", str(args.seeds)] if args.seeds else []
    words += ["--seed-offset", str(args.seed_offset)] if args.seed_offset else []
    words += [word for text in args.sweep or () for word in ("--sweep", text)]
    words += run.flags()
    if not args.methods and run.task == "sequences":
        words += ["--task", run.task]
    return shlex.join(words)

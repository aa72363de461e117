"""`tpo compare`: every objective that fits the terminal-reward task, in one ranking."""

from __future__ import annotations

import argparse
from pathlib import Path

from tpo.cli.flags.kinds import METHODS, OUT_FOLDER, SCALE
from tpo.cli.flags.parser import reads
from tpo.cli.lab import outputs
from tpo.options import COUNT


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """`tpo compare`"""
    command = commands.add_parser(
        "compare", help="rank every objective that fits the terminal-reward task"
    )
    command.add_argument(
        "--scale", type=reads(SCALE), default="quick", help="smoke, quick or full (default quick)"
    )
    command.add_argument(
        "--seeds", type=reads(COUNT), help="number of seeds (default: the scale's)"
    )
    command.add_argument(
        "--methods",
        type=reads(METHODS),
        help="comma-separated objectives, or FILE.py:CLASS (default: all that fit)",
    )
    command.add_argument(
        "--out",
        type=reads(OUT_FOLDER),
        metavar="DIR",
        help="folder of results (default results/compare-SCALE)",
    )
    outputs.add_output_flags(command)
    command.set_defaults(run=main)


def main(args: argparse.Namespace) -> int:
    """Run the study `compare`, rank its rows, list the objectives left out, with the reasons."""
    outputs.check(args)
    from tpo.cli.run_study import run
    from tpo.lab import studies
    from tpo.lab.studies.method_specs import unfitting_reasons
    from tpo.lab.studies.request_checks import check_request

    study = studies.get_study("compare")
    methods = tuple(args.methods.split(",")) if args.methods else ()
    check_request(study, args.scale, args.seeds, methods)
    from tpo.lab.execution.runner import Request, plan  # with JAX

    request = Request(study, args.scale, args.seeds, methods)
    plan(request)
    status = run([request], Path(args.out or f"results/compare-{args.scale}"), args)
    if not methods:
        reasons = "; ".join(f"{name}: {why}" for name, why in unfitting_reasons().items())
        outputs.say(f"left out: {reasons}", args)
    return status

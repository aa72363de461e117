"""`tpo compare`: every objective that fits, on the terminal-reward task, as one league table."""

from __future__ import annotations

import argparse
from pathlib import Path


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """`tpo compare`"""
    command = commands.add_parser(
        "compare", help="every objective that fits on terminal reward, as one league table"
    )
    command.add_argument("--scale", default="quick", help="smoke, quick or full (quick)")
    command.add_argument("--seeds", type=int, help="how many (the scale's)")
    command.add_argument("--methods", help="some of the objectives, with commas between (all)")
    command.add_argument("--out", metavar="DIR", help="where results go (results/compare-SCALE)")
    command.set_defaults(run=main)


def main(args: argparse.Namespace) -> int:
    """Run the study `compare`, rank its rows, name what was put aside and why."""
    from tpo.cli.run_study import run
    from tpo.lab import studies
    from tpo.lab.execution.runner import Request, plan
    from tpo.lab.studies.method_specs import aside

    study = studies.get_study("compare")
    methods = tuple(args.methods.split(",")) if args.methods else ()
    request = Request(study, args.scale, args.seeds, methods)
    plan(request)
    status = run([request], Path(args.out or f"results/compare-{args.scale}"))
    if not methods:
        print("put aside: " + "; ".join(f"{name}: {why}" for name, why in aside().items()))
    return status

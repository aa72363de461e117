"""`tpo compare`: every objective that fits the terminal-reward task, in one ranking."""

from __future__ import annotations

import argparse

from tpo.cli import run_study
from tpo.cli.lab import outputs
from tpo.cli.lab.run_flags import add_execution_flags, add_study_flags


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """`tpo compare`"""
    command = commands.add_parser(
        "compare", help="rank every objective that fits the terminal-reward task"
    )
    add_study_flags(command)
    add_execution_flags(command)
    command.set_defaults(run=main, study="compare")


def main(args: argparse.Namespace) -> int:
    """Run the study `compare`, rank its rows, list the objectives left out, with the reasons."""
    from tpo.lab.studies.method_specs import unfitting_reasons

    args.out = args.out or f"results/compare-{args.scale or 'quick'}"
    status = run_study.main(args)
    if not args.methods:
        reasons = "; ".join(f"{name}: {why}" for name, why in unfitting_reasons().items())
        outputs.say(f"left out: {reasons}", args)
    return status

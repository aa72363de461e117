"""`tpo demo`: TPO beside its rivals on one task, with a live table, a verdict and a report."""

from __future__ import annotations

import argparse

from tpo.cli.demo import dense, llm
from tpo.cli.flags.kinds import OUT_FOLDER, SCALE
from tpo.cli.flags.parser import reads
from tpo.options import COUNT, WHOLE


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """`tpo demo`"""
    command = commands.add_parser(
        "demo",
        help="compare TPO with GRPO, PPO and DG on one task, in about two minutes",
        description="A small transformer on a task with a dense reward: TPO beside GRPO, PPO and DG. "
        "With --llm, a language model of 0.9M parameters on a CPU: TPO beside GRPO through TRL.",
    )
    command.add_argument(
        "--llm", action="store_true", help="train a small language model through TRL instead"
    )
    command.add_argument(
        "--seeds",
        type=reads(COUNT),
        help=f"seeds per method (default 4; with --llm {llm.QUICK.seeds})",
    )
    command.add_argument(
        "--seed-offset", type=reads(WHOLE), default=0, metavar="N", help="first seed (default 0)"
    )
    command.add_argument(
        "--scale",
        type=reads(SCALE),
        default="quick",
        help="smoke, quick or full (default quick); --llm has no full",
    )
    command.add_argument(
        "--out",
        type=reads(OUT_FOLDER),
        metavar="DIR",
        help=f"output folder (default {dense.FOLDER}; with --llm {llm.FOLDER})",
    )
    command.add_argument("--open", action="store_true", help="show the report in the browser")
    command.set_defaults(run=main)


def main(args: argparse.Namespace) -> int:
    """The dense demo, or the one of a language model."""
    return llm.main(args) if args.llm else dense.main(args)

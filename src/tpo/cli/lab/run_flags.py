"""The flags of what runs studies: which part of a study, where, and how it is shown."""

from __future__ import annotations

import argparse

from tpo.cli.flags.fields import add_flags
from tpo.cli.flags.kinds import (
    ADDRESS,
    AXIS,
    DOWNLOADED_FILE,
    METHODS,
    OUT_FOLDER,
    SERVICE,
)
from tpo.cli.flags.parser import reads
from tpo.cli.lab.outputs import add_output_flags
from tpo.lab.studies.own_runs import OwnRun
from tpo.options import COUNT, NAME, NONNEGATIVE, WHOLE, declared, one_of


def add_study_flags(command: argparse.ArgumentParser) -> None:
    """What to run of a study: methods, size, a part of the grid or one more axis."""
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
        "--sweep",
        action="append",
        type=reads(AXIS),
        metavar="NAME=A,B",
        help="one more axis, such as learning_rate=1e-4,1e-3 or group_size=4,8",
    )
    command.add_argument(
        "--seeds", type=reads(COUNT), help="number of seeds (default: the study's, or 1)"
    )
    command.add_argument(
        "--seed-offset", type=reads(WHOLE), default=0, metavar="N", help="first seed (default 0)"
    )


def add_own_flags(command: argparse.ArgumentParser) -> None:
    """A run without a study: its task and training."""
    group = command.add_argument_group("a run of your own, without a study")
    group.argument_default = argparse.SUPPRESS  # what is not given is not in the namespace
    add_flags(group, declared(OwnRun).values(), {"mnist_path": DOWNLOADED_FILE})


def add_execution_flags(command: argparse.ArgumentParser) -> None:
    """Where to run and to save, and what to show."""
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
        help="where runs are computed, with the same numbers: local or ray (default local)",
    )
    command.add_argument(
        "--workers",
        type=reads(COUNT),
        metavar="N",
        help="parallel workers (default 1; with ray, all resources)",
    )
    command.add_argument(
        "--address",
        type=reads(ADDRESS),
        help="of a Ray cluster, as HOST:PORT (default: RAY_ADDRESS, or a new cluster here)",
    )
    add_output_flags(command)
    command.add_argument(
        "--log",
        type=reads(SERVICE),
        metavar="SERVICE",
        help="log the curves: tensorboard, wandb or wandb:PROJECT",
    )

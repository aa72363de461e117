"""The flags of `tpo train`: names, types and help texts."""

from __future__ import annotations

import argparse
from dataclasses import Field, fields
from typing import Any, NamedTuple

from tpo.cli.flags.kinds import FILE, OUT_FOLDER
from tpo.cli.flags.parser import reads
from tpo.llm.runs.recipe import PRESETS, Recipe
from tpo.options import BOOL, COUNT, NAME, Kind, one_of
from tpo.storage.former_names import FORMER_OPTIONS


class ComparisonOption(NamedTuple):
    """An option of a comparison: what it accepts, how usage shows its value, its help."""

    kind: Kind
    symbol: str
    about: str


COMPARISON = {
    "compare": ComparisonOption(
        NAME, "A,B", "methods: objectives, with options as in tpo:eta=0.5:score=mean"
    ),
    "seeds": ComparisonOption(COUNT, "N", "of every method (1)"),
    "tune": ComparisonOption(
        NAME,
        "NAME=A,B",
        "every method tries these values of an option, and is reported with its best",
    ),
    "tune_seeds": ComparisonOption(COUNT, "N", "of tuning, other than those reported (2)"),
    "tune_batches": ComparisonOption(COUNT, "N", "rollout batches of tuning (as many as reported)"),
    "workers": ComparisonOption(COUNT, "N", "runs at a time, each in a process of its own (1)"),
}


def add_options(
    commands: argparse._SubParsersAction[argparse.ArgumentParser],
) -> argparse.ArgumentParser:
    """The command `train` with all its flags."""
    command = commands.add_parser(
        "train",
        help="train a language model on a task with a verifiable score",
        description="--model and --task suffice; the rest is the paper's recipe.",
        argument_default=argparse.SUPPRESS,
    )
    for field in fields(Recipe):
        _add_option(command, field, _flag(field.name), field.metadata["help"])
    for former, name in FORMER_OPTIONS.items():  # hidden flags of commands that were published
        for field in (field for field in fields(Recipe) if field.name == name):
            _add_option(command, field, _flag(former), argparse.SUPPRESS)
    _add_run(command)
    group = command.add_argument_group("a comparison of several methods")
    for name, (kind, symbol, about) in COMPARISON.items():
        group.add_argument(_flag(name), type=reads(kind), help=about, dest=name, metavar=symbol)
    return command


def _add_option(command: argparse.ArgumentParser, field: Field[Any], flag: str, about: str) -> None:
    """The flag of an option of a recipe: a switch if the option is True or False."""
    kind = OUT_FOLDER if field.name == "out" else field.metadata["kind"]
    if kind is not BOOL:
        command.add_argument(
            flag, type=reads(kind), help=about, dest=field.name, metavar=kind.symbol
        )
    elif field.default:
        command.add_argument(
            flag, action=argparse.BooleanOptionalAction, help=about, dest=field.name
        )
    else:
        command.add_argument(flag, action="store_true", help=about, dest=field.name)


def _add_run(command: argparse.ArgumentParser) -> None:
    """Where options come from, and what to do with them."""
    command.add_argument(
        "--preset",
        type=reads(one_of(*PRESETS)),
        default=None,
        metavar=f"{{{','.join(PRESETS)}}}",
        help="default values of the options (paper)",
    )
    command.add_argument(
        "--config",
        type=reads(FILE),
        default=None,
        metavar="FILE",
        help="a YAML file of options",
    )
    command.add_argument("--resume", action="store_true", default=False, help="resume from --out")
    command.add_argument(
        "--probe",
        action="store_true",
        default=False,
        help="train nothing: measure what the model can do now; exit status 1 if no group is informative",
    )


def _flag(name: str) -> str:
    return "--" + name.replace("_", "-")

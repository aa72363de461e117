"""The flags of `tpo train`, made of the options of a recipe and of a comparison."""

from __future__ import annotations

import argparse
from dataclasses import dataclass

from tpo.cli.flags.fields import add_flag, add_flags, flag
from tpo.cli.flags.kinds import FILE, OUT_FOLDER
from tpo.llm.comparison.options import ComparisonOptions
from tpo.llm.runs.recipe import KINDS, PRESETS, Recipe
from tpo.options import BOOL, declared, one_of, option, optional, sections
from tpo.storage.former_names import FORMER_OPTIONS


@dataclass(frozen=True)
class CommandOptions:
    """Where options come from, and what to do with them."""

    preset: str | None = option(
        None, optional(one_of(*PRESETS)), "default values of the options", unset="paper"
    )
    config: str | None = option(None, optional(FILE), "a YAML file of options")
    resume: bool = option(False, BOOL, "resume from --out")
    probe: bool = option(
        False,
        BOOL,
        "train nothing: measure what the model can do now; exit status 1 if no group is informative",
    )


def add_options(
    commands: argparse._SubParsersAction[argparse.ArgumentParser],
) -> argparse.ArgumentParser:
    """The command `train` with all its flags, in groups as their classes are."""
    command = commands.add_parser(
        "train",
        help="train a language model on a task with a verifiable score",
        description="--model and --task suffice; the rest is the paper's recipe.",
        argument_default=argparse.SUPPRESS,
    )
    add_flags(command, declared(CommandOptions).values())
    command.set_defaults(**{name: f.default for name, f in declared(CommandOptions).items()})
    for title, options in (*sections(Recipe), *sections(ComparisonOptions)):
        add_flags(command.add_argument_group(title), options, {"out": OUT_FOLDER})
    for former, name in FORMER_OPTIONS.items():  # hidden flags of commands that were published
        if name in KINDS:
            add_flag(command, declared(Recipe)[name], flag(former), KINDS[name], argparse.SUPPRESS)
    return command

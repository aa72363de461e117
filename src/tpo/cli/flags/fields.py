"""Flags made of options: `tpo.options` declares what each accepts, its help and its default."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping
from dataclasses import Field
from typing import Any

from tpo.cli.flags.parser import reads
from tpo.options import BOOL, Kind, help_text


def flag(name: str) -> str:
    """`--learning-rate` of `learning_rate`."""
    return "--" + name.replace("_", "-")


def add_flags(
    command: argparse._ActionsContainer,
    options: Iterable[Field[Any]],
    kinds: Mapping[str, Kind] | None = None,
) -> None:
    """A flag for each option; `kinds` are of flags that accept less than the option does."""
    for one in options:
        add_flag(command, one, flag(one.name), (kinds or {}).get(one.name, one.metadata["kind"]))


def add_flag(
    command: argparse._ActionsContainer, option: Field[Any], name: str, kind: Kind, about: str = ""
) -> None:
    """One flag: a switch if the option is True or False, with `--no-` if it is True by default."""
    more: dict[str, Any] = {"type": reads(kind), "metavar": kind.symbol}
    if kind is BOOL:
        more = {"action": argparse.BooleanOptionalAction if option.default else "store_true"}
    command.add_argument(
        name,
        dest=option.name,
        default=command.argument_default or option.default,
        help=about or help_text(option).replace("%", "%%"),
        **more,
    )

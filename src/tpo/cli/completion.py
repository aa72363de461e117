"""`tpo --print-completion SHELL`: a script that completes commands, flags and names, made by shtab."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

SHELLS = ("bash", "zsh", "fish", "tcsh")
NEEDS = "--print-completion needs shtab: pip install shtab. The script itself needs nothing"


class PrintCompletion(argparse.Action):
    """Prints the script for a shell, and ends the program."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,
        option_string: str | None = None,
    ) -> None:
        """Print it."""
        print(script(parser, str(values)))
        parser.exit()


def script(top: argparse.ArgumentParser, shell: str) -> str:
    """The script; a missing shtab is named with the command that installs it."""
    try:
        import shtab
    except ModuleNotFoundError:
        raise ModuleNotFoundError(NEEDS, name="shtab") from None
    _add_names(top)
    return str(shtab.complete(top, shell))


def _add_names(top: argparse.ArgumentParser) -> None:
    """Let the names of studies, tasks, objectives and scales be completed, which a command checks itself."""
    import tpo
    from tpo.lab.studies import SCALES, list_studies
    from tpo.lab.studies.own_runs import TASKS

    names: dict[tuple[str, str], Sequence[str]] = {
        ("run", "study"): [*list_studies(), "all"],
        ("studies", "study"): list_studies(),
        ("run", "task"): list(TASKS),
        ("run", "match"): ("prompts", "interactions"),
        ("train", "objective"): tpo.list_objectives(),
        **{(command, "scale"): SCALES for command in ("run", "compare", "demo")},
    }
    for command, parser in commands_of(top).items():
        for action in parser._actions:
            if (command, action.dest) in names:
                action.choices = names[command, action.dest]


def commands_of(top: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    """The parser of each command."""
    found: dict[str, argparse.ArgumentParser] = {}
    for action in top._actions:
        if isinstance(action, argparse._SubParsersAction):
            found |= action.choices
    return found

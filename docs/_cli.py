"""The page of commands, made from the command line's own parser."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from tpo.cli import parser

WIDTH = 84


class Commands(SphinxDirective):
    """A section for each command: its usage, what it does, and its options with their help."""

    def run(self) -> list[nodes.Node]:
        return [section(name, does, of) for name, does, of in commands(parser())]


def commands(of: argparse.ArgumentParser) -> Iterator[tuple[str, str, argparse.ArgumentParser]]:
    """The commands of a parser: name, what it does, its own parser."""
    for action in of._actions:
        if isinstance(action, argparse._SubParsersAction):
            for listed in action._choices_actions:
                yield listed.dest, listed.help or "", action.choices[listed.dest]


def section(name: str, does: str, of: argparse.ArgumentParser) -> nodes.section:
    """One command."""
    of.formatter_class = lambda prog: argparse.HelpFormatter(prog, width=WIDTH)
    usage = of.format_usage().removeprefix("usage: ")
    parts: list[nodes.Node] = [
        nodes.title(text=f"tpo {name}"),
        nodes.paragraph(text=of.description or f"{does[:1].upper()}{does[1:]}."),
        nodes.literal_block(usage, usage, language="text"),
    ]
    parts += [listed for group in of._action_groups for listed in options(of, group)]
    return nodes.section("", *parts, ids=[f"tpo-{name}"], names=[f"tpo {name}"])


def options(
    of: argparse.ArgumentParser, group: argparse._ArgumentGroup
) -> Iterator[nodes.definition_list]:
    """The options of a group, under its title where it is one of the command's own."""
    formatter = of._get_formatter()
    actions = [a for a in group._group_actions if a.help != argparse.SUPPRESS and a.dest != "help"]
    if actions and group.title not in ("options", "positional arguments"):
        yield nodes.rubric(text=(group.title or "").capitalize())
    if actions:
        yield nodes.definition_list("", *(option(formatter, action) for action in actions))


def option(formatter: argparse.HelpFormatter, action: argparse.Action) -> nodes.Node:
    """An option as one writes it, and its help."""
    written = formatter._format_action_invocation(action)
    text = formatter._expand_help(action) if action.help else ""
    if action.choices and not action.metavar:
        text = f"{text} One of: {', '.join(map(str, action.choices))}.".strip()
    return nodes.definition_list_item(
        "",
        nodes.term("", "", nodes.literal(text=written)),
        nodes.definition("", nodes.paragraph(text=text)),
    )


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_directive("commands", Commands)
    return {"parallel_read_safe": True}

"""The page of commands, made from the parser of the command line; tables of options, from their fields."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator
from dataclasses import Field
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from tpo.cli import parser
from tpo.cli.flags.fields import flag
from tpo.llm.comparison.options import ComparisonOptions
from tpo.llm.run_options import TRL, VERL
from tpo.llm.runs.recipe import Recipe
from tpo.llm.trl.field_types import trl_name
from tpo.options import declared, default_text, sections

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


Rows = list[tuple[str, str, str]]


class Options(SphinxDirective):
    """`{options} trl`: a table of the options of `tpo train`, of TRL's config, or of verl's section."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        return [part for title, rows in tables(self.arguments[0]) for part in _table(title, rows)]


def tables(name: str) -> list[tuple[str, Rows]]:
    """Titles, and rows: an option as one writes it, its default, what it means."""
    if name == "trl":
        return [("", [row(trl_name(f), f) for c in TRL for f in declared(c).values()])]
    if name == "verl":
        options = [f for c in VERL for f in declared(c).values()]
        return [("", [row(f"+trainer.v1.tpo.{f.name}", f) for f in options])]
    listed = [*sections(Recipe), *sections(ComparisonOptions)]
    return [(title, [row(flag(f.name), f) for f in options]) for title, options in listed]


def row(written: str, of: Field[Any]) -> tuple[str, str, str]:
    """One option."""
    return written, default_text(of), of.metadata["help"]


def _table(title: str, rows: Rows) -> Iterator[nodes.Node]:
    if title:
        yield nodes.rubric(text=title)
    group = nodes.tgroup("", *(nodes.colspec(colwidth=w) for w in (30, 20, 50)), cols=3)
    group += nodes.thead("", _row(map(nodes.Text, ("option", "default", "meaning"))))
    body = [(nodes.literal(text=a), nodes.Text(b), nodes.Text(c)) for a, b, c in rows]
    group += nodes.tbody("", *map(_row, body))
    yield nodes.table("", group)


def _row(cells: Iterable[nodes.Node]) -> nodes.row:
    return nodes.row("", *(nodes.entry("", nodes.paragraph("", "", cell)) for cell in cells))


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_directive("commands", Commands)
    app.add_directive("options", Options)
    return {"parallel_read_safe": True}

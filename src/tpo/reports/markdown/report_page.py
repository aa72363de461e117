"""The report as Markdown: verdicts and tables, for a pull request or a terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tpo.reports.page_data import plain
from tpo.reports.wording import (
    FAILURE_COLUMNS,
    FAILURES,
    RIVAL_COLUMNS,
    Column,
    columns,
    duration,
    failures_meaning,
    meanings,
    settings,
    share_done,
    value_text,
)

SIGNS = {"holds": "✓", "does not hold": "✗", "undecided": "?"}


def report(studies: Sequence[Mapping[str, Any]]) -> str:
    """All studies, one after another."""
    if not studies:
        body = (
            "Nothing has been run yet. Run a study, then write the report again:\n\n"
            "    tpo run terminal --scale quick --out DIR\n"
        )
    else:
        body = "\n".join(study(plain(found)) for found in studies)
    return f"# Target policy optimization: results\n\n{body}"


def study(found: Mapping[str, Any], explained: bool = True) -> str:
    """One study; `explained` adds what the columns of its table mean.

    "figure", the path of a picture, and "notes", paragraphs of Markdown, are optional keys of the study.
    """
    done, cells = share_done(found)
    rows = (found.get("table") or {}).get("rows") or []
    head = [
        str(found.get("source") or ""),
        f"scale: {found.get('scale')}",
        f"{done} of {cells} runs",
    ]
    cost = found.get("cost") or {}
    if cost.get("seconds") is not None:
        head.append(f"{duration(cost['seconds'])} on {cost.get('device')}")
    parts = [
        f"## {text(found.get('title'))}",
        text(" · ".join(part for part in head if part)),
        text(found.get("question") or ""),
        text(found.get("about") or ""),
        f"![{text(found.get('title'))}]({found['figure']})" if found.get("figure") else "",
        "\n".join(map(verdict, found.get("verdicts") or ())),
        table(rows),
        failed(found),
        legend(meanings(rows)) if explained else "",
        str(found.get("notes") or ""),
        facts("Settings", settings(found)),
        facts("Provenance", found.get("provenance") or {}),
        code(str(found.get("command") or "")),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def verdict(found: Mapping[str, Any]) -> str:
    """A line of a list."""
    status = found["status"]
    words = f"**{text(found['claim'])}**: {text(status)}. {text(found.get('detail') or '')}"
    return f"- {SIGNS.get(status, '?')} {words.strip()}"


def against(verdicts: Sequence[Mapping[str, Any]]) -> str:
    """A table of claims by rival, under its heading; empty where no claim compares methods."""
    heads = ["claim", *(column.title for column in RIVAL_COLUMNS)]
    lines = [
        ["" if i else verdict["claim"], *(column.text(row) for column in RIVAL_COLUMNS)]
        for verdict in verdicts
        for i, row in enumerate(verdict.get("against") or ())
    ]
    numbers = [False, *(bool(column.kind) for column in RIVAL_COLUMNS)]
    return f"## Claims by rival\n\n{grid(heads, lines, numbers)}" if lines else ""


def table(rows: Sequence[Mapping[str, Any]], shown: Sequence[Column] = ()) -> str:
    """The rows in these columns, those of `wording.columns` where none are given."""
    if not rows:
        return ""
    shown = shown or columns(rows)
    heads = [c.title for c in shown]
    return grid(
        heads, [[c.text(row) for c in shown] for row in rows], [bool(c.kind) for c in shown]
    )


def failed(found: Mapping[str, Any], level: str = "###") -> str:
    """The table of typical seeds and complete failures, under its heading; empty for a study without."""
    rows = found.get("complete_failures") or []
    if not rows:
        return ""
    shown = table(rows, FAILURE_COLUMNS)
    return f"{level} {FAILURES}\n\n{shown}\n\n{text(failures_meaning(rows))}"


def legend(meanings: Mapping[str, str]) -> str:
    """A list of columns and what they mean; empty for none."""
    return "\n".join(f"- **{column}**: {meaning}" for column, meaning in meanings.items())


def grid(heads: Sequence[str], cells: Sequence[Sequence[str]], numbers: Sequence[bool]) -> str:
    """A table; columns of numbers are right-aligned."""
    return raw_grid(list(map(text, heads)), [list(map(text, line)) for line in cells], numbers)


def raw_grid(heads: Sequence[str], cells: Sequence[Sequence[str]], numbers: Sequence[bool]) -> str:
    """`grid` for cells that are Markdown already."""
    rule = ["---:" if one else "---" for one in numbers]
    return "\n".join("| " + " | ".join(line) + " |" for line in (heads, rule, *cells))


def facts(title: str, known: Mapping[str, Any]) -> str:
    """A paragraph of settings; empty for none."""
    if not known:
        return ""
    listed = "; ".join(f"{key} {value_text(value)}" for key, value in known.items())
    return f"{title}: {text(listed)}"


def anchor(title: str) -> str:
    """The anchor of a heading, for a link to it."""
    kept = "".join(c for c in title.lower() if c.isalnum() or c in " -_")
    return kept.replace(" ", "-")


def toctree(names: Sequence[str]) -> str:
    """The pages of a folder, for Sphinx; readers of the file itself have the links above."""
    return "\n".join(["```{toctree}", ":hidden:", "", *names, "```"])


def code(command: str) -> str:
    """A command on a line of its own."""
    return f"    {' '.join(command.split())}" if command else ""


def text(value: object) -> str:
    """Text on one line in which nothing is Markdown or HTML."""
    words = " ".join(str(value).split())
    for character in "\\`*_[]|":
        words = words.replace(character, f"\\{character}")
    return words.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")

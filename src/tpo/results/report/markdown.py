"""The report as Markdown: verdicts and tables, for a pull request or a terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tpo.results.report.data import plain
from tpo.results.report.words import columns, duration, legend, share_done, value_text

SIGNS = {"holds": "✓", "does not hold": "✗", "undecided": "?"}


def report(studies: Sequence[Mapping[str, Any]]) -> str:
    """All studies, one after another."""
    if not studies:
        body = (
            "Nothing has been run yet. Run a study into this store, and write the report again:\n\n"
            "    tpo run terminal --scale quick --out DIR\n"
        )
    else:
        body = "\n".join(study(plain(found)) for found in studies)
    return f"# Target policy optimization: results\n\n{body}"


def study(found: Mapping[str, Any], explained: bool = True) -> str:
    """One study; with what the columns mean if they are to be explained here.

    "figure", the path of a picture, and "notes", paragraphs of Markdown, are shown where it has them.
    """
    done, cells = share_done(found)
    rows = (found.get("table") or {}).get("rows") or []
    head = [
        str(found.get("source") or ""),
        f"scale: {found.get('scale')}",
        f"{done} of {cells} cells",
    ]
    cost = found.get("cost") or {}
    if cost.get("seconds") is not None:
        head.append(f"{duration(cost['seconds'])} on {cost.get('device')}")
    parts = [
        f"## {_text(found.get('title'))}",
        _text(" · ".join(part for part in head if part)),
        _text(found.get("about") or ""),
        f"![{_text(found.get('title'))}]({found['figure']})" if found.get("figure") else "",
        "\n".join(map(_verdict, found.get("verdicts") or ())),
        table(rows),
        (legend(rows) or "") if rows and explained else "",
        str(found.get("notes") or ""),
        _facts("Settings", found.get("settings") or {}),
        _facts("Provenance", found.get("provenance") or {}),
        _code(str(found.get("command") or "")),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _verdict(verdict: Mapping[str, Any]) -> str:
    status = verdict["status"]
    words = f"**{_text(verdict['claim'])}**: {_text(status)}. {_text(verdict.get('detail') or '')}"
    return f"- {SIGNS.get(status, '?')} {words.strip()}"


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    """The rows under the headings of `words.columns`."""
    if not rows:
        return ""
    shown = columns(rows)
    lines = [[c.title for c in shown], ["---:" if c.kind else "---" for c in shown]]
    lines += [[c.text(row) for c in shown] for row in rows]
    lines[0] = [_text(cell) for cell in lines[0]]
    lines[2:] = [[_text(cell) for cell in line] for line in lines[2:]]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _facts(title: str, facts: Mapping[str, Any]) -> str:
    if not facts:
        return ""
    listed = "; ".join(f"{key} {value_text(value)}" for key, value in facts.items())
    return f"{title}: {_text(listed)}"


def _code(command: str) -> str:
    return f"    {' '.join(command.split())}" if command else ""


def _text(value: object) -> str:
    """Text on one line in which nothing is Markdown or HTML."""
    text = " ".join(str(value).split())
    for character in "\\`*_[]|":
        text = text.replace(character, f"\\{character}")
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")

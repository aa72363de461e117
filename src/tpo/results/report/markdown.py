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
        body = "\n".join(_study(plain(study)) for study in studies)
    return f"# Target policy optimization: results\n\n{body}"


def _study(study: Mapping[str, Any]) -> str:
    done, cells = share_done(study)
    rows = (study.get("table") or {}).get("rows") or []
    head = [
        str(study.get("source") or ""),
        f"scale: {study.get('scale')}",
        f"{done} of {cells} cells",
    ]
    cost = study.get("cost") or {}
    if cost.get("seconds") is not None:
        head.append(f"{duration(cost['seconds'])} on {cost.get('device')}")
    parts = [
        f"## {_text(study.get('title'))}",
        _text(" · ".join(part for part in head if part)),
        _text(study.get("about") or ""),
        "\n".join(map(_verdict, study.get("verdicts") or ())),
        _table(rows),
        legend(rows) if rows else "",
        _facts("Settings", study.get("settings") or {}),
        _facts("Provenance", study.get("provenance") or {}),
        _code(str(study.get("command") or "")),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _verdict(verdict: Mapping[str, Any]) -> str:
    status = verdict["status"]
    words = f"**{_text(verdict['claim'])}**: {_text(status)}. {_text(verdict.get('detail') or '')}"
    return f"- {SIGNS.get(status, '?')} {words.strip()}"


def _table(rows: Sequence[Mapping[str, Any]]) -> str:
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

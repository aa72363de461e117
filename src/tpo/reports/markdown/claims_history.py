"""The history of claims: every verdict that `tpo evidence` found, and when it changed.

claims.csv beside the evidence has a line per change: study, claim, verdict, the version of the rules
(`tpo.stats.verdicts.RULES`), the date, and the commit of tpo.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any, NamedTuple

from tpo.stats.verdicts import RULES
from tpo.storage.provenance import commit

FILE = "claims.csv"


class Entry(NamedTuple):
    """A verdict on a claim from that date on."""

    study: str
    claim: str
    verdict: str
    rules: str
    date: str
    commit: str


def updated(folder: Path, found: Sequence[Mapping[str, Any]]) -> list[Entry]:
    """The history in that folder, and an entry for each claim of these studies whose verdict is another now."""
    known = read(folder)
    last = {(entry.study, entry.claim): entry.verdict for entry in known}
    today = str(RULES), date.today().isoformat(), commit()
    new = [
        Entry(one["name"], verdict["claim"], verdict["status"], *today)
        for one in found
        for verdict in one["verdicts"]
        if last.get((one["name"], verdict["claim"])) != verdict["status"]
    ]
    return known + new


def read(folder: Path) -> list[Entry]:
    """The entries of the file, none without one; the error for another table names it."""
    path = folder / FILE
    if not path.is_file():
        return []
    content = path.read_text(encoding="utf-8", errors="replace")
    head, *lines = [*csv.reader(content.splitlines())] or [[]]
    if tuple(head) != Entry._fields or any(len(line) != len(head) for line in lines):
        raise ValueError(
            f"{path} does not have the columns {', '.join(Entry._fields)} in every line: restore the file"
        )
    return [Entry(*line) for line in lines]


def text(entries: Sequence[Entry]) -> str:
    """The content of the file."""
    content = io.StringIO()
    csv.writer(content, lineterminator="\n").writerows([Entry._fields, *entries])
    return content.getvalue()


def changes(entries: Sequence[Entry]) -> list[tuple[Entry, Entry]]:
    """Each entry that replaced an earlier one of its claim, after that one."""
    last: dict[tuple[str, str], Entry] = {}
    found = []
    for entry in entries:
        key = entry.study, entry.claim
        if key in last:
            found.append((last[key], entry))
        last[key] = entry
    return found

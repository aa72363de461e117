"""Files of a run: logs as JSON lines, and JSON objects; a broken one is an error that names the way out."""

from __future__ import annotations

import functools
import json
import operator
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from tpo.storage.broken import json_object
from tpo.storage.files import write_text

START_AGAIN = "restore it, or start again with another --out"
LOST_ROWS = "restore it, or remove that line: what it says of its step is then lost"


class JsonFile(NamedTuple):
    """A file with a JSON object."""

    name: str
    keys: Mapping[str, type | tuple[type, ...]]
    """what it has at least, and of which type; `outer.inner` after `outer`"""
    way_out: str
    """what to do where it is broken"""

    def read(self, folder: Path) -> dict[str, Any] | None:
        """The object; None if there is no such file."""
        path = folder / self.name
        if not path.is_file():
            return None
        try:
            found = json_object(path.read_bytes())
        except (ValueError, RecursionError) as error:
            raise ValueError(f"{path} is broken ({error}): {self.way_out}") from None
        for key, kind in self.keys.items():
            *outer, last = key.split(".")
            if not isinstance(functools.reduce(operator.getitem, outer, found).get(last), kind):
                raise ValueError(f"{path} holds no valid {key!r}: {self.way_out}")
        return found


RECIPE = JsonFile("recipe.json", {"model": str, "task": str}, START_AGAIN)
RESULT = JsonFile(
    "result.json",
    {
        "steps": int,
        "evaluations": list,
        "seconds": (int, float),
        "seconds_per_step": dict,
        "provenance": dict,
    },
    "restore it, or remove it: --resume then finishes the run again from its last checkpoint",
)
MICRO_BATCH = JsonFile(
    "micro_batch.json", {"micro_batch": int}, "remove it: the micro-batch is then measured again"
)
REVISIONS = JsonFile(
    "revisions.json", {}, "restore it, or remove it: the newest commits of the hub are then read"
)


def write_lines(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """Write rows as JSON lines."""
    write_text(path, "".join(json.dumps(row) + "\n" for row in rows))


def read_lines(path: Path) -> list[dict[str, Any]]:
    """The rows of a file of JSON lines, each of a step; a last one that a kill left incomplete is skipped."""
    if not path.exists():
        return []
    *lines, last = path.read_bytes().split(b"\n")
    rows = [_row(f"{path}, line {number}", line) for number, line in enumerate(lines, 1)]
    try:
        return [*rows, _row(f"{path}, line {len(lines) + 1}", last)] if last else rows
    except ValueError:
        if last.startswith(b"{"):
            return rows
        raise


def _row(place: str, line: bytes) -> dict[str, Any]:
    try:
        row = json_object(line)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{place} is broken ({error}): {LOST_ROWS}") from None
    if not isinstance(row.get("step"), int):
        raise ValueError(f"{place} has no valid 'step': {LOST_ROWS}")
    return row


def keep_rows(path: Path, steps: Iterable[int], last: int) -> str | None:
    """Drop the rows after the step `last`, of which a resumed run writes others.

    Returns a message if rows of `steps` up to that one are missing.
    """
    rows = [row for row in read_lines(path) if row["step"] <= last]
    write_lines(path, rows)
    missing = sorted({step for step in steps if step <= last} - {row["step"] for row in rows})
    if not missing:
        return None
    return f"{path} has no row of {len(missing)} steps before the checkpoint, the first is {missing[0]}"

"""Files of a run: logs as JSON lines, each written whole or not at all, and checkpoints."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from tpo.storage.files import write_text


def write_lines(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """Write rows as JSON lines."""
    write_text(path, "".join(json.dumps(row) + "\n" for row in rows))


def read_lines(path: Path) -> list[dict[str, Any]]:
    """The rows of a file of JSON lines; a last line that a kill left incomplete is skipped."""
    if not path.exists():
        return []
    rows = []
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            rows.append(json.loads(line))
        except json.JSONDecodeError:
            break
    return rows


def last_checkpoint(folder: Path) -> str | None:
    """The newest checkpoint that was written whole: TRL's trainer_state.json is the last of its files."""
    checkpoints = [
        path for path in folder.glob("checkpoint-*") if path.name.rpartition("-")[2].isdigit()
    ]
    checkpoints.sort(key=lambda path: int(path.name.rpartition("-")[2]))
    for path in reversed(checkpoints):
        with contextlib.suppress(OSError, ValueError):
            json.loads((path / "trainer_state.json").read_text(encoding="utf-8"))
            return str(path)
    return None

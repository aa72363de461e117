"""Plain files, each written whole or not at all."""

from __future__ import annotations

import contextlib
import errno
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any


def write_bytes(path: Path, content: bytes | memoryview) -> None:
    """To a file beside it, to the disk, then in its place."""
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    with _explained(path), _removed_on_error(part):
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(part, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, path)


def write_text(path: Path, text: str) -> None:
    """UTF-8, whole or not at all."""
    write_bytes(path, text.encode())


def write_json(path: Path, content: Any) -> None:
    """Indented JSON."""
    write_text(path, json.dumps(content, indent=1) + "\n")


def read_json(path: Path) -> Any:
    """What `write_json` wrote, None where there is no such file; a broken one is named."""
    if not path.is_file():
        return None
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} is not JSON ({error}): restore it, or remove it") from error


@contextlib.contextmanager
def _removed_on_error(part: Path) -> Iterator[None]:
    try:
        yield
    except BaseException:
        with contextlib.suppress(OSError):
            part.unlink(missing_ok=True)
        raise


@contextlib.contextmanager
def _explained(path: Path) -> Iterator[None]:
    """Say what a full disk means for the run."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise OSError(
                error.errno,
                f"the disk is full: {path} could not be written. What was saved before is whole; "
                "free some space and run the same command again to go on from there",
            ) from error
        raise

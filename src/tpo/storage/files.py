"""Reading and writing plain files atomically: each is written whole or not at all."""

from __future__ import annotations

import contextlib
import errno
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any


def write_bytes(path: Path, content: bytes | memoryview) -> None:
    """Write to a temporary file in the same folder, flush it to the disk, then replace `path`."""
    temporary = path.with_name(f"{path.name}.{os.getpid()}.part")
    with _explained(path), _removed_on_error(temporary):
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(temporary, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)


def write_text(path: Path, text: str) -> None:
    """As `write_bytes`, in UTF-8."""
    write_bytes(path, text.encode())


def write_json(path: Path, content: Any) -> None:
    """As `write_bytes`, as indented JSON."""
    write_text(path, json.dumps(content, indent=1) + "\n")


def read_json(path: Path) -> Any:
    """The content of a JSON file, None if there is no such file. Names the file if it is not valid JSON."""
    if not path.is_file():
        return None
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} is not valid JSON ({error}): restore it, or remove it") from error


@contextlib.contextmanager
def _removed_on_error(temporary: Path) -> Iterator[None]:
    try:
        yield
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise


@contextlib.contextmanager
def _explained(path: Path) -> Iterator[None]:
    """If the disk is full, raise an error that says what was saved and how to continue."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise OSError(
                error.errno,
                f"the disk is full: {path} could not be written. Earlier files are intact: "
                "free some space and run the same command again to resume",
            ) from error
        raise

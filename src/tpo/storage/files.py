"""Reading and writing plain files atomically: each is written whole or not at all.

What was written survives a power failure: the file is flushed before it gets its name, and the folder after.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from tpo.storage.locks import lock

PART = re.compile(r"\.(json|npz)\.\w+\.part$")
"""Names of unfinished files that are removed from a store."""


def write_bytes(path: Path, content: bytes | memoryview, previous: Path | None = None) -> None:
    """Write to a temporary file in the same folder, flush it to the disk, then replace `path`.

    previous: where the replaced content is kept.
    """
    with _explained(path):
        _make_folder(path.parent)
        part, file = _new_part(path)
        with file, _removed_on_error(part):
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
            if previous is not None:
                with contextlib.suppress(FileNotFoundError):
                    os.replace(path, previous)
            os.replace(part, path)
        _sync(path.parent)


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
    except (json.JSONDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(f"{path} is not valid JSON ({error}): restore it, or remove it") from error


def remove_abandoned(folder: Path) -> None:
    """Remove what killed writers left in a folder and below; a file that is being written is locked."""
    for place, _, names in os.walk(folder):
        for part in (Path(place, name) for name in names if PART.search(name)):
            with contextlib.suppress(OSError), open(part, "r+b") as file:
                if lock(file, wait=False):
                    part.unlink()


def _new_part(path: Path) -> tuple[Path, BinaryIO]:
    """A new file beside `path`, locked so that `remove_abandoned` keeps it."""
    while True:
        part = path.with_name(f"{path.name}.{secrets.token_hex(4)}.part")
        file = open(part, "xb")  # noqa: SIM115 - the caller closes it
        lock(file)
        if part.exists():
            return part, file
        file.close()  # it was removed before it was locked


def _make_folder(folder: Path) -> None:
    if not folder.is_dir():
        _make_folder(folder.parent)
        folder.mkdir(exist_ok=True)
        _sync(folder.parent)


def _sync(folder: Path) -> None:
    """Flush the names in a folder to the disk, if its file system can."""
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except PermissionError:  # it may be written but not listed
        return
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise
    finally:
        os.close(descriptor)


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

"""Locks between processes: a file stays locked until it is closed, or its process ends, however it ends."""

from __future__ import annotations

import contextlib
import fcntl
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO


def lock(file: BinaryIO, wait: bool = True) -> bool:
    """Lock an open file. False if the file system has no locks; without `wait`, also if another has it."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """One process at a time runs the block; `path` is a file that exists and is not replaced."""
    with open(path, "r+b") as file:
        lock(file)
        yield

"""Ways in which a file is broken, and every file of a folder broken in each of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

CORRUPTIONS: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda _: b"",
    "half": lambda content: content[: len(content) // 2],
    "random": lambda content: Random(0).randbytes(len(content)),
    "[]": lambda _: b"[]",
}


@contextmanager
def broken(path: Path, corruption: str) -> Iterator[None]:
    """The file as it is after a corruption; afterwards as it was."""
    content = path.read_bytes()
    path.write_bytes(CORRUPTIONS[corruption](content))
    try:
        yield
    finally:
        path.write_bytes(content)

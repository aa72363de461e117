"""How deep in the library a call is: its frames on the stack, the outermost first."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import NamedTuple

import tpo

PACKAGE = Path(tpo.__file__).parent
MOST_FRAMES, MOST_FILES = 12, 10


class Depth(NamedTuple):
    """The library's frames on the stack, each as `FILE: FUNCTION`."""

    frames: list[str]

    @property
    def files(self) -> set[str]:
        return {frame.partition(": ")[0] for frame in self.frames}

    def __str__(self) -> str:
        return f"{len(self.frames)} frames of {len(self.files)} files"

    def check(self) -> None:
        """Print the frames, and fail where they are too many or in too many files."""
        print(self, *self.frames, sep="\n  ")
        assert len(self.frames) <= MOST_FRAMES
        assert len(self.files) <= MOST_FILES


def depth() -> Depth:
    """Of the caller."""
    found: list[str] = []
    frame = sys._getframe(1)
    while frame is not None:
        path = Path(frame.f_code.co_filename)
        if path.is_relative_to(PACKAGE):
            found.insert(0, f"{path.relative_to(PACKAGE)}: {frame.f_code.co_qualname}")
        frame = frame.f_back
    return Depth(found)

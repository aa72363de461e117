"""Progress where stderr is not a terminal: plain lines, at intervals that fit a log file."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field

EVERY = 15.0
"""Seconds between two lines, at least; the first and the last of a run are always printed."""


@dataclass
class PlainProgress:
    """Prints `TITLE: 40/500, error 0.1234, about 12 s left` to stderr."""

    every: float = EVERY
    clock: Callable[[], float] = time.monotonic
    began: dict[str, float] = field(default_factory=dict)
    first: dict[str, tuple[float, int]] = field(default_factory=dict)
    """When each title's first progress came, and how much: compiling is no part of the rate."""
    last: float = float("-inf")
    finished: set[str] = field(default_factory=set)

    def show(self, title: str, done: int, total: int, words: str) -> None:
        """A line, if one is due."""
        now = self.clock()
        first = title not in self.began
        self.began.setdefault(title, now)
        if done:
            self.first.setdefault(title, (now, done))
        if title in self.finished:
            return
        if done >= total:
            self.finished.add(title)
        if first or done >= total or now - self.last >= self.every:
            self.last = now
            print(f"{title}: {done}/{total}{_after(words)}{self._left(title, now, done, total)}",
                  file=sys.stderr, flush=True)  # fmt: skip

    def _left(self, title: str, now: float, done: int, total: int) -> str:
        start, there = self.first.get(title, (now, done))
        if not there < done < total:
            return ""
        return f", about {duration((now - start) * (total - done) / (done - there))} left"

    def seconds(self, title: str) -> float:
        """Since the first line of that title."""
        return self.clock() - self.began.get(title, self.clock())


def _after(words: str) -> str:
    return f", {words}" if words else ""


def duration(seconds: float) -> str:
    """`12 s`, `3 min`, `2.5 h`"""
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"

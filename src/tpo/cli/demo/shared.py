"""What both demos share: the time left, bars, and the last line with the report's path."""

from __future__ import annotations

import time
import webbrowser
from dataclasses import dataclass, field
from pathlib import Path

BAR = 24
"""Characters of a bar at 100%."""

EARLY = 0.02
"""A smaller share of the work says too little about the time that the rest takes."""


def bar(share: float) -> str:
    """A bar of that share of the full length."""
    return "█" * round(BAR * share)


@dataclass
class Clock:
    """The time that remains, from what is done so far."""

    total: float
    first: float = 0
    """what was done before it began, by an earlier start"""
    starting: str = "compiling"
    """what happens before enough is done for an estimate"""
    began: float = field(default_factory=time.monotonic)

    def left(self, done: float) -> str:
        """In words."""
        if done >= self.total:
            return "done"
        if done - self.first < EARLY * (self.total - self.first) or done <= self.first:
            return self.starting
        seconds = (time.monotonic() - self.began) * (self.total - done) / (done - self.first)
        return f"about {seconds:.0f} s left"


def show(page: Path, seconds: float, in_browser: bool) -> None:
    """Print the time taken and the report's path; open the report if asked to."""
    page = page.resolve()
    print(f"\n{seconds:.0f} s. Report: {page}")
    if in_browser and not webbrowser.open(page.as_uri()):
        print("no browser could be started: open the file by hand")

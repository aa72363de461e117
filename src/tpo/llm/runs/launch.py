"""The processes of a run, as `torchrun` starts them."""

from __future__ import annotations

import os


def is_main() -> bool:
    """Whether this process is the first of those that `torchrun` started, or the only one."""
    return int(os.environ.get("RANK", "0")) == 0


def processes() -> int:
    """The number of processes that `torchrun` started."""
    return int(os.environ.get("WORLD_SIZE", "1"))

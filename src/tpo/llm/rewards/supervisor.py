"""The process between a trainer and a scoring worker: no process that the scorer started outlives the run.

It runs `python -I -S supervisor.py CHANNEL COMMAND...`: COMMAND in a session of its own, with CHANNEL, an open
socket. It ends when the trainer closes or writes to its standard input, when the trainer dies, or with COMMAND;
it then kills COMMAND's process group. On Linux it also kills those that have left the group.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import signal
import subprocess
import sys

PR_SET_CHILD_SUBREAPER = 36
INTERVAL = 1.0
"""Seconds between two looks at whether the trainer and COMMAND are alive."""


def main(channel: int, command: list[str]) -> int:
    """Start COMMAND, wait, kill; its exit status, or 128 + the number of the signal that ended it."""
    trainer = os.getppid()
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(
            PR_SET_CHILD_SUBREAPER, 1
        )  # orphans become children of this process
    child = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=2, pass_fds=[channel], start_new_session=True
    )
    os.close(channel)
    while os.getppid() == trainer and not _has_ended(child.pid):
        if select.select([0], [], [], INTERVAL)[0]:
            break
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, signal.SIGKILL)
    status = child.wait()
    while orphans := _children():
        for pid in orphans:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
    return status if status >= 0 else 128 - status


def _has_ended(pid: int) -> bool:
    """Whether the child has ended; it stays a zombie, so that its group's number stays its own."""
    return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def _children() -> list[int]:
    """The children of this process; none where /proc does not tell."""
    try:
        with open(f"/proc/self/task/{os.getpid()}/children") as file:
            return [int(pid) for pid in file.read().split()]
    except OSError:
        return []


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), sys.argv[2:]))

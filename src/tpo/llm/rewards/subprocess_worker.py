"""The process behind `Scoring`: it reads rows from a socket and writes scores or errors, as lines of JSON.

The scorer's standard input is empty, and what it prints goes to stderr. Processes that it starts or forks have
no such socket. What it executes in this process, though, can reach this module and forge a score.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import math
import os
import resource
import signal
import socket
import sys
from typing import Any

from tpo.checks import one_line
from tpo.llm.rewards.scorers import load

PR_SET_PDEATHSIG = 1


def main(channel: socket.socket) -> None:
    """Score rows until the input ends; the scorer is called with a row's values, the completion first."""
    os.register_at_fork(after_in_child=lambda: _drop(channel))
    _die_with_parent()
    requests = channel.makefile("rb")
    settings = json.loads(requests.readline())
    sys.path += settings["paths"]  # last: a file there replaces no library
    memory = settings["memory"]
    _limit_memory(memory)
    try:
        score = load(settings["scorer"])
    except BaseException as error:  # the scorer is the user's code: the parent reports the error
        _write(channel, settings, {"error": _described(error, memory)})
        return
    _write(channel, settings, {"ready": True})
    for line in requests:
        request = json.loads(line)
        _limit_cpu(request["cpu"])
        row = request["row"]
        try:
            reply = _reply(score(row.pop("completion"), *row.values()))
        except BaseException as error:  # as above; the next completion is still scored
            if channel.fileno() < 0:  # in a process that the scorer forked
                raise
            reply = {"kind": "raised", "error": _described(error, memory)}
        _write(channel, request, reply)


def _reply(score: Any) -> dict[str, Any]:
    """The score as a reply; an error if it is not a finite number."""
    if score is None or not math.isfinite(score):
        return {"kind": "no finite number", "error": f"the scorer returned {score}"}
    return {"score": float(score)}


def _drop(channel: socket.socket) -> None:
    """Close a fork's copy of the channel; a fork of a fork has none."""
    number = channel.detach()
    if number >= 0:
        os.close(number)


def _described(error: BaseException, memory: float) -> str:
    """The error in one line of bounded length."""
    if isinstance(error, MemoryError):
        return f"MemoryError: the scorer needs more than {memory:g} GiB, its scorer_memory"
    try:
        text = str(error)
    except BaseException as inner:  # its text is the user's code too
        text = f"its text raises {type(inner).__name__}"
    return one_line(f"{type(error).__name__}: {text}" if text else type(error).__name__)


def _write(channel: socket.socket, request: dict[str, Any], reply: dict[str, Any]) -> None:
    """Send a reply to a request, on a line of its own whatever else was written."""
    channel.sendall(b"\n" + json.dumps({**reply, "id": request["id"]}).encode() + b"\n")


def _die_with_parent() -> None:
    """Have Linux kill this process if its supervisor is killed."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def _limit_memory(gigabytes: float) -> None:
    """Bound what this process, and each that it starts, may allocate beyond what it uses now."""
    try:
        with open("/proc/self/statm") as file:
            used = int(file.read().split()[5]) * resource.getpagesize()
    except OSError:
        used = 0
    _lower(resource.RLIMIT_DATA, used + int(gigabytes * 2**30), hard=True)


def _limit_cpu(seconds: float) -> None:
    """Bound the CPU time of this process from now on, and that of each that it starts."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    _lower(resource.RLIMIT_CPU, math.ceil(usage.ru_utime + usage.ru_stime + seconds))


def _lower(kind: int, value: int, hard: bool = False) -> None:
    """Set a limit, at most the hard limit that this process has."""
    _, highest = resource.getrlimit(kind)
    if highest != resource.RLIM_INFINITY:
        value = min(value, highest)
    with contextlib.suppress(ValueError, OSError, OverflowError):  # a system without this limit
        resource.setrlimit(kind, (value, value if hard else highest))


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    own_end = socket.socket(fileno=int(sys.argv[1]))
    own_end.set_inheritable(False)
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # the trainer has ended
        main(own_end)

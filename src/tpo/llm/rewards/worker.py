"""ScoringWorker: the trainer's end of a process that scores one completion after another.

Requests and replies are lines of JSON on a socket that only the two share. A request has a random number, and a
line without it is no reply and is ignored. A `supervisor` starts the process and ends it.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from typing import Any

from tpo.llm.rewards import supervisor
from tpo.llm.rewards.sandbox import DEFAULT, Sandbox, bwrap, python_paths

START_TIMEOUT = 120.0
"""Seconds that a worker may take to start and to import the scorer."""
END_TIMEOUT = 5.0
"""Seconds that a supervisor may take to kill the processes."""
MAX_REPLY = 2**20
"""Bytes on the channel, up to a reply, after which the worker is ended."""


class ScorerError(RuntimeError):
    """The process of the scorer could not start, or ended unexpectedly."""


class UnsentError(Exception):
    """A row that JSON cannot hold."""


class ScoringWorker:
    """A process that scores one completion after another."""

    def __init__(self, scorer: Mapping[str, Any], sandbox: Sandbox = DEFAULT) -> None:
        """The process starts with the first request; `scorer` is what `tpo.llm.rewards.scorers.load` takes."""
        self._process: subprocess.Popen[bytes] | None = None
        self._scorer = dict(scorer)
        self._sandbox = sandbox
        self._owner = os.getpid()
        """the process that may end the worker"""

    def request(self, row: Mapping[str, Any], timeout: float) -> dict[str, Any]:
        """The reply for a completion: a `score`, or an `error` with its `kind`."""
        try:
            self._ensure_running()
            cpu = self._sandbox.cpu_seconds(timeout)
            return self._reply({"row": dict(row), "cpu": cpu}, timeout)
        except TimeoutError:
            self.close()
            return {"kind": "hung", "error": f"no score within {timeout:g} s"}
        except UnsentError as error:
            return {"kind": "raised", "error": f"the row cannot be sent: {error}"}
        except (OSError, ScorerError) as error:
            self.close()
            return {"kind": "raised", "error": str(error)}

    def start(self) -> None:
        """Start the process if it does not run; ScorerError if the scorer cannot be loaded."""
        try:
            self._ensure_running()
        except (OSError, ScorerError) as error:
            self.close()
            raise ScorerError(str(error) or f"not loaded within {START_TIMEOUT:g} s") from None

    def close(self) -> None:
        """Kill the process, whatever it is doing, and all that it started."""
        self._end()

    def __del__(self) -> None:
        self.close()

    def _ensure_running(self) -> None:
        if self._process is not None:
            return
        channel, theirs = (_beyond_standard_streams(one) for one in socket.socketpair())
        number = str(theirs.fileno())
        own = "dataset" not in self._scorer and ":" in str(self._scorer.get("name"))
        paths = [os.getcwd()] if own else []
        isolation = bwrap([*python_paths(), *paths]) if self._sandbox.isolates(self._scorer) else []
        supervised = [sys.executable, "-I", "-S", supervisor.__file__, number]
        worker = [sys.executable, "-P", "-m", "tpo.llm.rewards.subprocess_worker", number]
        with theirs:
            self._process = subprocess.Popen(
                [*supervised, *isolation, *worker],
                stdin=subprocess.PIPE,
                stderr=None if _is_passed_on(2) else subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                bufsize=0,
                start_new_session=True,  # Ctrl-C reaches only the trainer, which then ends the process
            )
        self._channel = channel
        memory = self._sandbox.scorer_memory
        ready = self._reply(
            {"scorer": self._scorer, "paths": paths, "memory": memory}, START_TIMEOUT
        )
        if "error" in ready:
            raise ScorerError(ready["error"])

    def _reply(self, request: Mapping[str, Any], timeout: float) -> dict[str, Any]:
        """The reply to a request; TimeoutError if it takes longer."""
        end = time.monotonic() + timeout
        number = secrets.token_hex(16)
        known = number.encode()
        try:
            asked = json.dumps({**request, "id": number}).encode()
        except (TypeError, ValueError, RecursionError) as error:
            raise UnsentError(error) from None
        self._channel.settimeout(timeout)
        try:
            self._channel.sendall(asked + b"\n")
            line = next((line for line in self._lines(end) if known in line), b"")
        except ConnectionError:
            raise ScorerError(self._reason_of_end()) from None
        with contextlib.suppress(ValueError, RecursionError):
            reply = json.loads(line)
            if isinstance(reply, dict):
                return reply
        raise ScorerError("the scorer wrote to the channel of its worker")

    def _lines(self, end: float) -> Iterator[bytes]:
        """The lines that arrive on the channel until this time, at most MAX_REPLY bytes."""
        line, total = bytearray(), 0
        while total < MAX_REPLY:
            left = end - time.monotonic()
            if left <= 0:
                raise TimeoutError
            self._channel.settimeout(left)
            part = self._channel.recv(65536)
            if not part:
                raise ConnectionResetError
            total += len(part)
            *whole, rest = part.split(b"\n")
            for piece in whole:
                yield bytes(line + piece)
                line.clear()
            line += rest

    def _reason_of_end(self) -> str:
        """Why the process ended."""
        status = self._end() or 0
        number = status - 128 if status >= 0 else -status  # of the worker, or of its supervisor
        if number == signal.SIGXCPU:
            return "the scorer used more CPU time than scorer_cpu allows"
        reason = f"signal {number}" if number > 0 else f"exit status {status}"
        return f"the scorer ended its process ({reason})"

    def _end(self) -> int | None:
        """Have the supervisor kill the process; its exit status, None if none ran."""
        process, self._process = self._process, None
        if process is None or os.getpid() != self._owner:  # a fork of the trainer is no owner
            return None
        assert process.stdin is not None
        with contextlib.suppress(OSError), process.stdin:
            process.stdin.write(b"end\n")  # other forks of the trainer may hold the pipe open
        self._channel.close()
        try:
            return process.wait(END_TIMEOUT)
        except subprocess.TimeoutExpired:
            process.kill()
            return process.wait()


def _beyond_standard_streams(one: socket.socket) -> socket.socket:
    """The same socket with a number above 2: where a trainer has closed stdin, it may have that number."""
    with one:
        return socket.socket(fileno=fcntl.fcntl(one.fileno(), fcntl.F_DUPFD_CLOEXEC, 3))


def _is_passed_on(descriptor: int) -> bool:
    """Whether a process that is started has this stream of the trainer's."""
    try:
        return os.get_inheritable(descriptor)
    except OSError:
        return False

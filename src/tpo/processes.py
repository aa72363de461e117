"""A worker process behind a pipe: it gets a method's name and arguments, and sends back the result.

It ignores Ctrl-C, which its parent handles, and it ends when its parent ends.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import threading
import traceback
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.connection import Connection
from multiprocessing.connection import wait as wait_for
from typing import Any, NamedTuple


class Lost(NamedTuple):
    """What `receive` returns if the worker died."""

    why: str


class Failed(NamedTuple):
    """What `receive` returns if the method raised."""

    kind: str
    message: str
    trace: str

    def error(self, title: str) -> Exception:
        """The error to raise in the parent: a user's mistake in one line, any other with its traceback."""
        for kind in (ValueError, TypeError, OSError, ModuleNotFoundError):
            if self.kind == kind.__name__:
                return kind(f"{title}: {self.message}")
        return ChildProcessError(f"{title} failed in its worker:\n{self.trace}")


class ProcessWorker:
    """The caller's end of a process that holds one object, `make(*arguments)`, and calls its methods."""

    def __init__(self, make: Callable[..., Any], *arguments: Any) -> None:
        """Start the process, and call `make` in it."""
        context = multiprocessing.get_context("spawn")
        self.connection, theirs = context.Pipe()
        self.process = context.Process(target=_serve, args=(theirs, make, arguments), daemon=True)
        with _ignoring_interrupts():
            self.process.start()
        theirs.close()

    def send(self, method: str, *arguments: Any) -> None:
        """Call a method; calls are answered in their order."""
        with contextlib.suppress(OSError):  # `receive` reports a dead worker
            self.connection.send((method, arguments))

    def receive(self) -> Any:
        """The next answer; `Lost` if the process died, `Failed` if the method raised."""
        try:
            return self.connection.recv()
        except (EOFError, OSError):
            self.end()
            code = self.process.exitcode or 0
            return Lost(f"killed by signal {-code}" if code < 0 else f"exit status {code}")

    def end(self) -> None:
        """Kill the process; its work since the last answer is lost."""
        self.connection.close()
        self.process.kill()
        self.process.join()


def first_ready(
    workers: Sequence[ProcessWorker], timeout: float | None = None
) -> ProcessWorker | None:
    """A worker that has answered, or None after `timeout` seconds."""
    ready = wait_for([worker.connection for worker in workers], timeout)
    return next((worker for worker in workers if worker.connection in ready), None)


def answered(method: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    """What the method returns, or `Failed` if it raises."""
    try:
        return method(*arguments)
    except Exception as error:
        return Failed(type(error).__name__, str(error), traceback.format_exc())


def _serve(connection: Connection, make: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    """The main loop of a worker process: answer calls until the pipe closes."""
    threading.Thread(target=_exit_with_parent, daemon=True).start()
    own = make(*arguments)
    with contextlib.suppress(EOFError, OSError):
        while True:
            method, given = connection.recv()
            connection.send(answered(getattr(own, method), given))


def _exit_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent:
        parent.join()
        os._exit(1)


@contextlib.contextmanager
def _ignoring_interrupts() -> Iterator[None]:
    """Processes started in this block ignore Ctrl-C: their parent handles it."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)

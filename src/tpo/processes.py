"""A process of our own at the other end of a pipe: a method's name and arguments in, its answer out.

It never hears Ctrl-C, which is for whoever started it, and it ends when that one does.
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
    """The answer of a worker that died."""

    why: str


class Failed(NamedTuple):
    """The answer of a worker whose job raised."""

    kind: str
    message: str
    trace: str

    def error(self, title: str) -> Exception:
        """What to raise where the job was given: the user's own mistakes in one line, ours in full."""
        for kind in (ValueError, TypeError, OSError, ModuleNotFoundError):
            if self.kind == kind.__name__:
                return kind(f"{title}: {self.message}")
        return ChildProcessError(f"{title} failed in its worker:\n{self.trace}")


class ProcessWorker:
    """What `make(*arguments)` returns, in a process of its own."""

    def __init__(self, make: Callable[..., Any], *arguments: Any) -> None:
        """Start the process; `make` is called there."""
        context = multiprocessing.get_context("spawn")
        self.connection, theirs = context.Pipe()
        self.process = context.Process(target=_serve, args=(theirs, make, arguments), daemon=True)
        with _deaf():
            self.process.start()
        theirs.close()

    def send(self, method: str, *arguments: Any) -> None:
        """Ask for a method; what was asked before is answered before."""
        with contextlib.suppress(OSError):  # a dead worker says so when it is asked for the answer
            self.connection.send((method, arguments))

    def receive(self) -> Any:
        """The next answer; `Lost` where the process died, `Failed` where the method raised."""
        try:
            return self.connection.recv()
        except (EOFError, OSError):
            self.end()
            code = self.process.exitcode or 0
            return Lost(f"killed by signal {-code}" if code < 0 else f"exit status {code}")

    def end(self) -> None:
        """Kill it; whatever it did since its last answer is gone."""
        self.connection.close()
        self.process.kill()
        self.process.join()


def first_ready(
    workers: Sequence[ProcessWorker], timeout: float | None = None
) -> ProcessWorker | None:
    """One of these whose answer is there, or None after so many seconds."""
    ready = wait_for([worker.connection for worker in workers], timeout)
    return next((worker for worker in workers if worker.connection in ready), None)


def answered(method: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    """What the method returns, or in plain words that it raised."""
    try:
        return method(*arguments)
    except Exception as error:
        return Failed(type(error).__name__, str(error), traceback.format_exc())


def _serve(connection: Connection, make: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    """A worker's life: answer what is asked, until nobody is there to ask."""
    threading.Thread(target=_leave_with_the_driver, daemon=True).start()
    own = make(*arguments)
    with contextlib.suppress(EOFError, OSError):
        while True:
            method, given = connection.recv()
            connection.send(answered(getattr(own, method), given))


def _leave_with_the_driver() -> None:
    driver = multiprocessing.parent_process()
    if driver:
        driver.join()
        os._exit(1)


@contextlib.contextmanager
def _deaf() -> Iterator[None]:
    """What is started meanwhile never hears Ctrl-C: its driver does, and tells it."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)

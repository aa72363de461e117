"""Sandbox: what a scoring worker may use of this machine, and how bubblewrap isolates it."""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from tpo.llm.run_options import SandboxOptions
from tpo.options import check

HIDDEN = ("/tmp", "/var/tmp", "/run", "/var/run")
"""Empty folders in isolation, beside Python's own temporary folder; sockets of services are in /run."""


@dataclass(frozen=True)
class Sandbox(SandboxOptions):
    """Limits of a scoring worker; `scorer_memory` and `scorer_cpu` hold for each of its processes."""

    def __post_init__(self) -> None:
        check(self)

    def check(self) -> None:
        """ValueError if isolation is demanded and does not work here."""
        why = bwrap_problem() if self.isolate == "bwrap" else None
        if why:
            raise ValueError(
                f"isolate is 'bwrap', and {why}: install bubblewrap (apt install bubblewrap) on a machine "
                "that permits user namespaces, or run in a container of your own with isolate none"
            )

    def isolates(self, scorer: Mapping[str, Any]) -> bool:
        """Whether a worker with this scorer is isolated; in auto a dataset's own rule is, where it can be."""
        if self.isolate == "auto":
            return "dataset" in scorer and bwrap_problem() is None
        return self.isolate == "bwrap"

    def cpu_seconds(self, timeout: float) -> float:
        """Seconds of CPU time for a completion with this time limit."""
        return 4 * timeout if self.scorer_cpu is None else self.scorer_cpu


DEFAULT = Sandbox()


def bwrap(shown: Iterable[str] = ()) -> list[str]:
    """The command that runs a command in isolation; `shown` are paths that stay readable in hidden folders."""
    private = {os.path.realpath(p) for p in (*HIDDEN, tempfile.gettempdir()) if os.path.isdir(p)}
    hidden = [word for path in sorted(private) for word in ("--tmpfs", path)]
    inside = sorted(
        {p for p in map(os.path.realpath, shown) if os.path.exists(p) and _is_inside(p, private)}
    )
    visible = [word for path in inside for word in ("--ro-bind", path, path)]
    return [
        *("bwrap", "--unshare-all", "--die-with-parent", "--cap-drop", "ALL"),
        *("--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"),
        *hidden,
        *visible,
        "--",
    ]


def _is_inside(path: str, folders: Iterable[str]) -> bool:
    return any(
        path != folder and os.path.commonpath([path, folder]) == folder for folder in folders
    )


@functools.cache
def bwrap_problem() -> str | None:
    """Why isolation does not work on this machine, found by trying it; None if it works."""
    if shutil.which("bwrap") is None:
        return "the command bwrap was not found"
    trial = [*bwrap(python_paths()), sys.executable, "-I", "-S", "-c", ""]
    try:
        done = subprocess.run(
            trial, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=30, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"bwrap does not work ({error})"
    return f"bwrap does not work ({done.stderr.strip()[:200]})" if done.returncode else None


def python_paths() -> list[str]:
    """The folders from which this Python imports."""
    return [sys.prefix, sys.base_prefix, *(path for path in sys.path if path)]

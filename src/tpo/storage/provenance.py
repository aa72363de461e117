"""The provenance of a result: the commit of the code, and the versions of packages."""

from __future__ import annotations

import functools
import os
import platform
import subprocess
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path


def versions(packages: Iterable[str]) -> dict[str, str]:
    """Python's version, and those of the packages that are installed."""
    found = {"python": platform.python_version()}
    for package in packages:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


TRACKED = "src/tpo/storage/provenance.py"
"""This file in a checkout of tpo. A repository around an installed copy has it elsewhere or not at all."""


@functools.cache
def commit() -> str:
    """The commit of the checkout of tpo that this code lies in, with a + if files differ from it.

    `VERSION (wheel)` for an installed package; "" where there is neither. Read once per process, since later
    changes of files do not change loaded code. Set TPO_COMMIT where the source has no git history, as in a
    container.
    """
    if given := os.environ.get("TPO_COMMIT"):
        return given
    if _git("ls-files", "--full-name", Path(__file__).name) == TRACKED:
        return _git("describe", "--always", "--abbrev=12", "--dirty=+")
    installed = versions(["tpo"]).get("tpo")
    return f"{installed} (wheel)" if installed else ""


def _git(*command: str) -> str:
    """What git prints in the folder of this file; "" where it fails or is not installed."""
    try:
        found = subprocess.run(
            ["git", *command], cwd=Path(__file__).parent,
            capture_output=True, text=True, timeout=10, check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return found.stdout.strip() if found.returncode == 0 else ""

"""`tpo doctor`: which optional packages are installed, which work, and how to install the others."""

from __future__ import annotations

import argparse
import importlib
import os
import platform
from importlib.metadata import PackageNotFoundError, version

import numpy as np

import tpo
from tpo.llm.rewards.sandbox import bwrap_problem

PARTS = {
    "lab": ("jax", "optax", "rich", "scipy", "scikit-learn"),
    "llm": ("torch", "transformers", "trl", "peft", "datasets", "accelerate", "reasoning-gym"),
    "verl": ("verl", "TransferQueue", "cachetools", "fastapi", "uvicorn"),
    "ray": ("ray",),
}


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """`tpo doctor`"""
    command = commands.add_parser(
        "doctor", help="check the installation: packages, versions, whether they work"
    )
    command.set_defaults(run=main)


def main(args: argparse.Namespace) -> int:
    """Print a line per extra and per library; 1 if an installed library does not work."""
    print(f"tpo {tpo.__version__}, Python {platform.python_version()}, {platform.platform()}")
    for extra, packages in PARTS.items():
        missing = [name for name in packages if installed(name) is None]
        found = [f"{name} {installed(name)}" for name in packages if name not in missing]
        print(f"{extra + ':':7}{', '.join(found) or 'nothing installed'}")
        if missing:
            apart = ", in a separate environment" if extra == "verl" else ""
            print(f"       missing {', '.join(missing)}: pip install 'tpo[{extra}]'{apart}")
    print(f"run:   {engines()}")
    print(f"isolation of scorers: {bwrap_problem() or 'bubblewrap works'}")
    failures = [message for library in ("numpy", "jax", "torch") if (message := broken(library))]
    for message in failures:
        print(message)
    return 1 if failures else 0


def installed(package: str) -> str | None:
    """The version of a package, or None."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def engines() -> str:
    """The ways to run a study on this machine."""
    words = f"tpo run STUDY --workers N, on {os.cpu_count()} CPU cores or one accelerator"
    return words + ("; --engine ray, on this machine or a cluster" if installed("ray") else "")


def broken(library: str) -> str | None:
    """Compute a TPO target with the library; an error message, or None if it works or is not installed."""
    if installed(library) is None:
        return None
    try:
        module = importlib.import_module("jax.numpy" if library == "jax" else library)
        asarray = getattr(module, "asarray")  # noqa: B009 - a module, known by name only
        scores = asarray(np.array([0.0, 1.0, 1.0, 0.0], dtype=np.float32))
        q = tpo.target(0 * scores, tpo.standardize(scores))
        # z-scores are ±1, so q is e/(2e + 2/e) on a winner
        wrong = abs(float(q[1]) - 0.4403985) > 1e-6
        print(f"{library + ':':7}computes a target on {getattr(q, 'device', 'cpu')}")
    except (ImportError, RuntimeError, AttributeError) as error:
        return f"{library} is installed but does not work: {error}"
    return f"{library} computes a wrong target: {q}" if wrong else None

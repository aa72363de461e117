"""`tpo doctor`: what is installed, what works, what to do about the rest."""

from __future__ import annotations

import argparse
import importlib
import os
import platform
from importlib.metadata import PackageNotFoundError, version

import numpy as np

import tpo

PARTS = {
    "lab": ("jax", "optax", "rich", "scipy", "scikit-learn"),
    "llm": ("torch", "transformers", "trl", "peft", "datasets", "accelerate", "reasoning-gym"),
    "verl": ("verl", "TransferQueue", "cachetools", "fastapi", "uvicorn"),
    "ray": ("ray",),
}


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """`tpo doctor`"""
    command = commands.add_parser(
        "doctor", help="what is installed, what works, what to do about it"
    )
    command.set_defaults(run=main)


def main(args: argparse.Namespace) -> int:
    """Print one line per part and per library; 0 where all that is installed also works."""
    print(f"tpo {tpo.__version__}, Python {platform.python_version()}, {platform.platform()}")
    for part, packages in PARTS.items():
        missing = [name for name in packages if installed(name) is None]
        found = [f"{name} {installed(name)}" for name in packages if name not in missing]
        print(f"{part + ':':7}{', '.join(found) or 'nothing installed'}")
        if missing:
            apart = ", in an environment of its own" if part == "verl" else ""
            print(f"       missing {', '.join(missing)}: pip install 'tpo[{part}]'{apart}")
    print(f"run:   {engines()}")
    failures = [trouble for library in ("numpy", "jax", "torch") if (trouble := broken(library))]
    for trouble in failures:
        print(trouble)
    return 1 if failures else 0


def installed(package: str) -> str | None:
    """The version of a package, or None."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def engines() -> str:
    """What a study can run on here."""
    words = f"tpo run STUDY --workers N, on {os.cpu_count()} CPU cores or one accelerator"
    return words + ("; --engine ray, here or on a cluster" if installed("ray") else "")


def broken(library: str) -> str | None:
    """Compute one TPO target with the library; a sentence if that fails, None if it works or is absent."""
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

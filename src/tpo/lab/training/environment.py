"""What the numbers of a run may depend on beyond its cell: code, versions and machine."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

import jax

from tpo.lab.rollouts.data_parallel import available_size
from tpo.storage.provenance import commit, versions

PACKAGES = ("tpo", "numpy", "jax", "jaxlib", "optax")


def environment() -> dict[str, str]:
    """What all workers of a study must have in common."""
    first = jax.devices()[0]
    return {
        "jax": jax.__version__,
        "platform": first.platform,
        "device": first.device_kind,
        "data_parallel_size": str(available_size()),
    }


def device() -> str:
    """The device of this process in words."""
    first = jax.devices()[0]
    return f"{os.cpu_count()} CPU cores" if first.platform == "cpu" else first.device_kind


def origin(environment: Mapping[str, str], device: str) -> dict[str, str]:
    """What is written with a checkpoint: where all of it is equal, a resumed run has the same bits."""
    return {"commit": commit(), **versions(PACKAGES), **environment, "device": device}


def note_changes(title: str, before: Mapping[str, str], now: Mapping[str, str]) -> None:
    """Warn if a run resumes a checkpoint of another origin; what one of them does not know is not compared."""
    known = [name for name in before if before[name] and now.get(name)]
    found = [
        f"{name} {before[name]}, now {now[name]}" for name in known if before[name] != now[name]
    ]
    if found:
        print(
            f"{title} resumes a checkpoint of another environment ({'; '.join(found)}): "
            "its numbers may differ from those of an uninterrupted run",
            file=sys.stderr,
        )


def cores() -> int:
    """How many CPU cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1

"""Curves, one array [seeds, episodes] per measure: what a file of a run must hold, as far as it is known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from tpo.storage import npz

Curves = npz.Arrays
"""One array [seeds, episodes] per measure."""


class Size(NamedTuple):
    """Seeds and episodes of a training run; None where the store does not know them."""

    seeds: int | None = None
    episodes: int | None = None

    @classmethod
    def of(cls, description: Mapping[str, Any]) -> Size | None:
        """From a run's cell.json; None for a computation, which has no curves, and where it is missing."""
        if "cell" not in description:
            return None
        cell = description["cell"]
        budget = cell.get("budget") if isinstance(cell, Mapping) else None
        known = budget if isinstance(budget, Mapping) else {}
        return cls(*(n if isinstance(n := known.get(name), int) else None for name in cls._fields))


def numbers(arrays: npz.Arrays) -> npz.Arrays:
    """The same arrays; ValueError if there is none, or one holds anything but numbers."""
    if not arrays:
        raise ValueError("no arrays")
    for name, x in arrays.items():
        if x.dtype.kind not in "biufc":
            raise ValueError(f"{name} has type {x.dtype}, expected numbers")
    return arrays


def checked(curves: Curves, size: Size) -> Curves:
    """The same curves; ValueError unless all are [seeds, episodes] of that size."""
    first = next(iter(numbers(curves).values())).shape
    known = tuple(m if n is None else n for n, m in zip(size, first, strict=False))
    for name, x in curves.items():
        if x.ndim != 2 or x.size == 0 or x.shape != known:
            wanted = ", ".join("any" if n is None else str(n) for n in size)
            raise ValueError(f"{name} has shape {x.shape}, expected ({wanted}) seeds and episodes")
    return curves


def joined(shards: Sequence[Curves]) -> Curves:
    """The curves of all shards, concatenated over seeds and as long as the shortest one."""
    for shard in shards[1:]:
        if other := shard.keys() ^ shards[0].keys():
            raise ValueError(f"not every shard has the curves {', '.join(sorted(other))}")
    shortest = min(x.shape[1] for shard in shards for x in shard.values())
    return {
        name: np.concatenate([shard[name][:, :shortest] for shard in shards]) for name in shards[0]
    }

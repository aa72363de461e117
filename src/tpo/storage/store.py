"""`Store`: a folder of runs in plain files (JSON and NPZ, never pickle), each written whole or not at all.

DIR/store.json             the version of this layout
DIR/KEY/cell.json          what was run, and where
DIR/KEY/checkpoint.npz     an unfinished run: curves so far, and the state to resume from
DIR/KEY/previous.npz       the checkpoint before
DIR/KEY/curves.npz         the finished curves, one array [seeds, episodes] per measure
DIR/KEY/cost.json          seconds spent on the run, and the code and machine of its last step
DIR/KEY/seeds/FIRST+COUNT  a shard: checkpoints and curves of some of the seeds, until all shards are finished

Several processes may use one store. A file that is broken is renamed to NAME.broken, with a warning.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tpo.storage import npz
from tpo.storage.broken import intact, json_object
from tpo.storage.curves import Curves, Size, checked, joined, numbers
from tpo.storage.files import read_json, remove_abandoned, write_bytes, write_json

VERSION = 1

CHECKPOINTS = {
    "checkpoint.npz": "the checkpoint before it is used",
    "previous.npz": "the run starts again",
}
"""Files of checkpoints, the latest first, and what happens without each."""

SHARD = re.compile(r"(\d+)\+([1-9]\d*)")


class Snapshot(NamedTuple):
    """A checkpoint: the episode, the curves so far, and the arrays of the state.

    origin: code, versions and machine that it was computed with; empty in older stores.
    """

    episode: int
    curves: Curves
    state: list[np.ndarray]
    origin: Mapping[str, str] = {}

    def to_bytes(self) -> memoryview:
        """The content of its file."""
        arrays = {f"curve/{name}": x for name, x in self.curves.items()}
        arrays |= {f"state/{i:04d}": x for i, x in enumerate(self.state)}
        arrays["episode"] = np.asarray(self.episode)
        arrays["origin"] = np.asarray(json.dumps(dict(self.origin)))
        return npz.to_bytes(arrays)

    @classmethod
    def from_bytes(cls, content: bytes) -> Snapshot:
        """The inverse of `to_bytes`."""
        arrays = npz.from_bytes(content)
        curves = {n.removeprefix("curve/"): x for n, x in arrays.items() if n.startswith("curve/")}
        places = sorted(int(n.removeprefix("state/")) for n in arrays if n.startswith("state/"))
        state = [arrays[f"state/{i:04d}"] for i in places]
        origin = json_object(str(arrays.get("origin", "{}")).encode())
        if not all(isinstance(value, str) for value in origin.values()):
            raise ValueError("origin holds other values than text")
        return cls(int(arrays["episode"]), curves, state, origin)


class Store:
    """The runs in one folder, by the key of their cell."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        """Open or create the folder. Raises, and changes nothing, for another version or other content."""
        self.folder = Path(folder)
        version = self._version()
        if version is None:
            write_json(self.mark, {"version": VERSION})
        elif version != VERSION:
            raise ValueError(
                f"{self.folder} holds results of store version {version}, and this tpo reads "
                f"version {VERSION}: choose another folder, or the tpo that wrote it. "
                "Nothing was changed"
            )
        remove_abandoned(self.folder)

    @property
    def mark(self) -> Path:
        """The file that makes a folder a store; processes lock it to change files that they share."""
        return self.folder / "store.json"

    def _version(self) -> Any:
        """The version in store.json; None if it must be written."""
        if self._has_runs_or_nothing():
            return intact(self.mark, lambda x: json_object(x)["version"], "a new one is written")
        found = read_json(self.mark)
        if not isinstance(found, dict) or "version" not in found:
            raise ValueError(
                f"{self.folder} is not empty and has no store.json, so it is not a store of results: "
                "choose an empty or a new folder. Nothing was changed"
            )
        return found["version"]

    def _has_runs_or_nothing(self) -> bool:
        if any(any(self.folder.glob(runs)) for runs in ("*/cell.json", "studies/*.json")):
            return True
        names = [path.name for path in self.folder.iterdir()] if self.folder.exists() else []
        return all(name.startswith("store.json") for name in names)

    def keys(self) -> list[str]:
        """The keys of all runs that have been started."""
        return sorted(path.parent.name for path in self.folder.glob("*/cell.json"))

    def begin(self, key: str, description: dict[str, Any]) -> None:
        """Write the description of the run with this key, unless it is there already."""
        if not self.description(key):
            write_json(self.folder / key / "cell.json", dict(sorted(description.items())))

    def description(self, key: str) -> dict[str, Any]:
        """The description that `begin` wrote; empty without one."""
        path = self.folder / key / "cell.json"
        return intact(path, json_object, "the results of the run are kept") or {}

    def save(self, key: str, snapshot: Snapshot) -> None:
        """Add a checkpoint; the one before is kept beside it, and any earlier one is removed."""
        latest, previous = (self.folder / key / name for name in CHECKPOINTS)
        write_bytes(latest, snapshot.to_bytes(), previous)

    def checkpoint(self, key: str) -> Snapshot | None:
        """The last checkpoint, the one before if the last is broken, or None."""
        seeds = (self._size(key) or Size()).seeds

        def parsed(content: bytes) -> Snapshot:
            found = Snapshot.from_bytes(content)
            checked(found.curves, Size(seeds, found.episode))
            for x in found.state:
                numbers({"an array of the state": x})
            return found

        found = (
            intact(self.folder / key / name, parsed, without)
            for name, without in CHECKPOINTS.items()
        )
        return next((snapshot for snapshot in found if snapshot is not None), None)

    def finish(self, key: str, curves: Curves) -> None:
        """Write the finished curves, then remove checkpoints and any shards."""
        write_bytes(self.folder / key / "curves.npz", npz.to_bytes(curves))
        self.discard(key)

    def discard(self, key: str) -> None:
        """Remove the checkpoints and shards of a finished run, which a kill may have left."""
        for name in CHECKPOINTS:
            (self.folder / key / name).unlink(missing_ok=True)
        shutil.rmtree(self.folder / key / "seeds", ignore_errors=True)

    def curves(self, key: str) -> Curves | None:
        """The finished curves, or None."""
        path = self.folder / key / "curves.npz"
        size = self._size(key)

        def parsed(content: bytes) -> Curves:
            found = numbers(npz.from_bytes(content))
            return found if size is None else checked(found, size)

        return intact(path, parsed, "tpo run computes it again")

    def _size(self, key: str) -> Size | None:
        """The size of a run or shard; None for a computation, and for a run without its description."""
        run, _, shard = key.partition("/seeds/")
        size = Size.of(self.description(run))
        count = SHARD.fullmatch(shard)
        return (size or Size())._replace(seeds=int(count[2])) if count else size

    def cost(self, key: str) -> dict[str, Any]:
        """ "seconds" spent on a run so far, with all its resumptions, and "provenance" of its last step."""
        found = intact(
            self.folder / key / "cost.json", _cost_from_bytes, "time is counted from 0 again"
        )
        return found or {"seconds": 0.0, "provenance": {}}

    def add_cost(self, key: str, seconds: float, provenance: Mapping[str, Any]) -> None:
        """Add seconds to the cost of a run, and replace its provenance."""
        total = round(self.cost(key)["seconds"] + seconds, 3)
        found = {"seconds": total, "provenance": dict(provenance)}
        write_json(self.folder / key / "cost.json", found)

    def shard_key(self, key: str, first: int, count: int) -> str:
        """The key of a shard: `count` seeds of a run, from seed `first` on."""
        return f"{key}/seeds/{first}+{count}"

    def shards(self, key: str) -> list[tuple[int, int]]:
        """(first seed, count) of each shard of a run that has been started; no two share a seed."""
        # Two runs at once may divide the seeds differently.
        names = {path.parent.name for path in self.folder.glob(f"{key}/seeds/*/*.npz")}
        found = (match for name in names if (match := SHARD.fullmatch(name)))
        kept: list[tuple[int, int]] = []
        for first, count in sorted((int(match[1]), int(match[2])) for match in found):
            if not kept or first >= sum(kept[-1]):
                kept.append((first, count))
        return kept

    def so_far(self, key: str) -> Curves:
        """The curves of an unfinished run; if it has shards, up to the episode that all have reached."""
        saved = self.checkpoint(key)
        shards = [self._shard_so_far(self.shard_key(key, *shard)) for shard in self.shards(key)]
        found = [curves for curves in shards if curves]
        return self.joined(key, found) if found else saved.curves if saved else {}

    def joined(self, key: str, shards: Sequence[Curves]) -> Curves:
        """The curves of shards of a run; the error for shards that do not fit together names their folder."""
        try:
            return joined(shards)
        except ValueError as error:
            raise ValueError(
                f"{self.folder / key / 'seeds'}: {error}: remove the folder of the wrong shard, and run the "
                "study again"
            ) from None

    def _shard_so_far(self, key: str) -> Curves:
        finished, saved = self.curves(key), self.checkpoint(key)
        return finished or (saved.curves if saved else {})


def _cost_from_bytes(content: bytes) -> dict[str, Any]:
    found = json_object(content)
    seconds, provenance = float(found["seconds"]), found.get("provenance") or {}
    if not isinstance(provenance, dict):
        raise ValueError(f"provenance is {provenance!r:.60}, expected an object")
    json.dumps([seconds, provenance], allow_nan=False)
    return {"seconds": seconds, "provenance": provenance}


__all__ = ["CHECKPOINTS", "SHARD", "VERSION", "Curves", "Snapshot", "Store", "joined"]

"""`Store`: a folder of runs in plain files (JSON and NPZ, never pickle), each written whole or not at all.

DIR/store.json             the version of this layout
DIR/KEY/cell.json          what was run, and where
DIR/KEY/checkpoint.npz     an unfinished run: curves so far, and the state to resume from
DIR/KEY/curves.npz         the finished curves, one array [seeds, episodes] per measure
DIR/KEY/seeds/FIRST+COUNT  a shard: the same two files for some of the seeds, until all shards are finished
"""

from __future__ import annotations

import io
import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tpo.storage.files import read_json, write_bytes, write_json

VERSION = 1

Curves = dict[str, np.ndarray]
"""One array [seeds, episodes] per measure."""


class Snapshot(NamedTuple):
    """A checkpoint: the episode, the curves so far, and the arrays of the state."""

    episode: int
    curves: Curves
    state: list[np.ndarray]


class Store:
    """The runs in one folder, by the key of their cell."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        """Open or create the folder. Raises, and changes nothing, for another version or other content."""
        self.folder = Path(folder)
        mark = self.folder / "store.json"
        if mark.exists():
            found = read_json(mark).get("version")
            if found != VERSION:
                raise ValueError(
                    f"{self.folder} holds results of store version {found}, and this tpo reads "
                    f"version {VERSION}: choose another folder, or the tpo that wrote it. "
                    "Nothing was changed"
                )
            return
        if self.folder.exists() and any(self.folder.iterdir()):
            raise ValueError(
                f"{self.folder} is not empty and has no store.json, so it is not a store of results: "
                "choose an empty or a new folder. Nothing was changed"
            )
        self.folder.mkdir(parents=True, exist_ok=True)
        write_json(mark, {"version": VERSION})

    def keys(self) -> list[str]:
        """The keys of all runs that have been started."""
        return sorted(path.parent.name for path in self.folder.glob("*/cell.json"))

    def begin(self, key: str, description: dict[str, Any]) -> None:
        """Write the description of the run with this key, unless it is there already."""
        path = self.folder / key / "cell.json"
        if not path.exists():
            write_json(path, dict(sorted(description.items())))

    def description(self, key: str) -> dict[str, Any]:
        """The description that `begin` wrote."""
        found: dict[str, Any] = read_json(self.folder / key / "cell.json")
        return found

    def save(self, key: str, snapshot: Snapshot) -> None:
        """Replace the checkpoint; the old one stays until the new one is on disk."""
        arrays = {f"curve/{name}": x for name, x in snapshot.curves.items()}
        arrays |= {f"state/{i:04d}": x for i, x in enumerate(snapshot.state)}
        arrays["episode"] = np.asarray(snapshot.episode)
        _write_arrays(self.folder / key / "checkpoint.npz", arrays)

    def checkpoint(self, key: str) -> Snapshot | None:
        """The last checkpoint, or None."""
        arrays = _read(self.folder / key / "checkpoint.npz")
        if arrays is None:
            return None
        curves = {n.removeprefix("curve/"): x for n, x in arrays.items() if n.startswith("curve/")}
        state = [arrays[name] for name in sorted(arrays) if name.startswith("state/")]
        return Snapshot(int(arrays["episode"]), curves, state)

    def finish(self, key: str, curves: Curves) -> None:
        """Write the finished curves, then remove the checkpoint and any shards."""
        _write_arrays(self.folder / key / "curves.npz", curves)
        (self.folder / key / "checkpoint.npz").unlink(missing_ok=True)
        if self.shards(key):
            shutil.rmtree(self.folder / key / "seeds")

    def curves(self, key: str) -> Curves | None:
        """The finished curves, or None."""
        return _read(self.folder / key / "curves.npz")

    def shard_key(self, key: str, first: int, count: int) -> str:
        """The key of a shard: `count` seeds of a run, from seed `first` on."""
        return f"{key}/seeds/{first}+{count}"

    def shards(self, key: str) -> list[tuple[int, int]]:
        """(first seed, count) of each shard of a run that has been started."""
        names = [path.parent.name for path in self.folder.glob(f"{key}/seeds/*/*.npz")]
        return sorted({(int(a), int(b)) for a, _, b in (name.partition("+") for name in names)})

    def so_far(self, key: str) -> Curves:
        """The curves of an unfinished run; if it has shards, up to the episode that all have reached."""
        saved = self.checkpoint(key)
        found = [self._shard_so_far(self.shard_key(key, *shard)) for shard in self.shards(key)]
        return joined(found) if found else saved.curves if saved else {}

    def _shard_so_far(self, key: str) -> Curves:
        finished, saved = self.curves(key), self.checkpoint(key)
        return finished or (saved.curves if saved else {})


def joined(shards: Sequence[Curves]) -> Curves:
    """The curves of all shards, concatenated over seeds and as long as the shortest one."""
    shortest = min(x.shape[1] for shard in shards for x in shard.values())
    return {
        name: np.concatenate([shard[name][:, :shortest] for shard in shards]) for name in shards[0]
    }


def _write_arrays(path: Path, arrays: Curves) -> None:
    content = io.BytesIO()
    np.savez(content, **arrays)  # type: ignore[arg-type]
    write_bytes(path, content.getbuffer())


def _read(path: Path) -> Curves | None:
    if not path.exists():
        return None
    with np.load(path, allow_pickle=False) as z:
        return {name: z[name] for name in z.files}


def cost(folder: Path, key: str) -> float:
    """Seconds spent on a run so far, with all its resumptions."""
    found = read_json(folder / key / "cost.json")
    return float(found["seconds"]) if found else 0.0

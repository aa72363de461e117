"""A folder of runs in plain files (JSON and NPZ, never pickle), each written whole or not at all.

DIR/store.json             the layout's version
DIR/KEY/cell.json          what was run, and where
DIR/KEY/checkpoint.npz     how far it got: curves, and the state to go on from
DIR/KEY/curves.npz         the finished curves, one array [seeds, episodes] per measure
"""

from __future__ import annotations

import contextlib
import errno
import io
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

VERSION = 1

Curves = dict[str, np.ndarray]
"""One array [seeds, episodes] per measure."""


class Snapshot(NamedTuple):
    """How far a run got: its curves so far, and the arrays of its state."""

    episode: int
    curves: Curves
    state: list[np.ndarray]


class Store:
    """The runs under one folder, by the key of their cell."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        """Open the folder, or make it; another version's folder is left alone with a clear error."""
        self.folder = Path(folder)
        mark = self.folder / "store.json"
        if mark.exists():
            found = json.loads(mark.read_text()).get("version")
            if found != VERSION:
                raise ValueError(
                    f"{self.folder} holds results of store version {found}, and this tpo reads "
                    f"version {VERSION}: choose another folder, or the tpo that wrote it. "
                    "Nothing was changed"
                )
            return
        if self.folder.exists() and any(self.folder.iterdir()):
            raise ValueError(
                f"{self.folder} is not empty and has no store.json, so it is no store of results: "
                "choose an empty or a new folder. Nothing was changed"
            )
        self.folder.mkdir(parents=True, exist_ok=True)
        self._write(mark, json.dumps({"version": VERSION}).encode())

    def keys(self) -> list[str]:
        """The cells that have been started."""
        return sorted(path.parent.name for path in self.folder.glob("*/cell.json"))

    def begin(self, key: str, description: dict[str, Any]) -> None:
        """Note what is run under this key."""
        path = self.folder / key / "cell.json"
        if not path.exists():
            path.parent.mkdir(exist_ok=True)
            self._write(path, json.dumps(description, indent=1, sort_keys=True).encode())

    def description(self, key: str) -> dict[str, Any]:
        """What `begin` noted."""
        found: dict[str, Any] = json.loads((self.folder / key / "cell.json").read_text())
        return found

    def save(self, key: str, snapshot: Snapshot) -> None:
        """Replace the checkpoint; the old one stays until the new one is on disk."""
        arrays = {f"curve/{name}": x for name, x in snapshot.curves.items()}
        arrays |= {f"state/{i:04d}": x for i, x in enumerate(snapshot.state)}
        arrays["episode"] = np.asarray(snapshot.episode)
        self._write_arrays(self.folder / key / "checkpoint.npz", arrays)

    def checkpoint(self, key: str) -> Snapshot | None:
        """The last whole checkpoint, or None."""
        arrays = _read(self.folder / key / "checkpoint.npz")
        if arrays is None:
            return None
        curves = {n.removeprefix("curve/"): x for n, x in arrays.items() if n.startswith("curve/")}
        state = [arrays[name] for name in sorted(arrays) if name.startswith("state/")]
        return Snapshot(int(arrays["episode"]), curves, state)

    def finish(self, key: str, curves: Curves) -> None:
        """Write the finished curves; the checkpoint is no longer needed."""
        self._write_arrays(self.folder / key / "curves.npz", curves)
        (self.folder / key / "checkpoint.npz").unlink(missing_ok=True)

    def curves(self, key: str) -> Curves | None:
        """The finished curves, or None."""
        return _read(self.folder / key / "curves.npz")

    def _write_arrays(self, path: Path, arrays: Curves) -> None:
        content = io.BytesIO()
        np.savez(content, **arrays)  # type: ignore[arg-type]
        self._write(path, content.getbuffer())

    def _write(self, path: Path, content: bytes | memoryview) -> None:
        """All of it or nothing: to a file beside it, to the disk, then in its place."""
        part = path.with_name(f"{path.name}.{os.getpid()}.part")
        with _explained(path), _removed_on_error(part):
            with open(part, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            os.replace(part, path)


def _read(path: Path) -> Curves | None:
    if not path.exists():
        return None
    with np.load(path, allow_pickle=False) as z:
        return {name: z[name] for name in z.files}


@contextlib.contextmanager
def _removed_on_error(part: Path) -> Iterator[None]:
    try:
        yield
    except BaseException:
        with contextlib.suppress(OSError):
            part.unlink(missing_ok=True)
        raise


@contextlib.contextmanager
def _explained(path: Path) -> Iterator[None]:
    """Say what a full disk means for the run."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise OSError(
                error.errno,
                f"the disk is full: {path} could not be written. What was saved before is whole; "
                "free some space and run the same command again to go on from there",
            ) from error
        raise

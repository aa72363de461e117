"""The manifest of a study in a store: DIR/studies/NAME.json lists its planned cells by key.

The runs are kept in the store under their own keys, so studies that share a cell share its run.
"""

from __future__ import annotations

import datetime
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from tpo.storage.broken import intact, json_object
from tpo.storage.files import write_json
from tpo.storage.locks import locked
from tpo.storage.provenance import commit, versions
from tpo.storage.shapes import check_fields
from tpo.storage.store import Store

PACKAGES = ("tpo", "numpy", "jax", "optax")


@dataclass(frozen=True)
class PlannedCell:
    """One method at one point of the grid; `key` is the key of its run in the store."""

    key: str
    coords: Mapping[str, str | float | bool]
    method: str
    label: str


@dataclass(frozen=True)
class Manifest:
    """A study as it was requested."""

    name: str
    scale: str
    seeds: int
    episodes: int
    command: str
    settings: Mapping[str, Any]
    parts: tuple[PlannedCell, ...]
    provenance: Mapping[str, Any] = field(default_factory=dict)
    study: Mapping[str, Any] | None = None
    """The study's declaration, so that a report needs no other file; None in stores of earlier versions."""

    def joined(self, earlier: Manifest | None) -> Manifest:
        """This manifest, with the cells of an earlier run that it does not plan itself."""
        if earlier is None:
            return self
        if earlier.scale != self.scale:
            raise ValueError(
                f"--scale is {self.scale}, and this folder holds {self.name} at scale "
                f"{earlier.scale}: give another --out. Nothing was changed"
            )
        mine = {_identity(part) for part in self.parts}
        kept = tuple(part for part in earlier.parts if _identity(part) not in mine)
        return replace(self, parts=kept + self.parts)


def _identity(part: PlannedCell) -> str:
    return json.dumps([dict(part.coords), part.method], sort_keys=True)


def path_of(folder: Path, name: str) -> Path:
    """The path of a study's manifest."""
    return folder / "studies" / f"{name}.json"


def add(store: Store, manifest: Manifest) -> None:
    """Write the manifest, joined with that of an earlier run; runs that do so at once wait for each other."""
    with locked(store.mark):
        joined = manifest.joined(read(store.folder, manifest.name))
        plain = asdict(joined)
        if joined.study is None:
            del plain["study"]
        write_json(path_of(store.folder, manifest.name), plain)


def read(folder: Path, name: str) -> Manifest | None:
    """The manifest of a study in that folder; None without one, or if it was broken and is now renamed."""
    path = path_of(folder, name)
    plain = intact(path, json_object, "finished runs are kept: tpo run lists them again")
    if plain is None:
        return None
    try:
        json.dumps(plain, allow_nan=False)
        parts = tuple(PlannedCell(**part) for part in plain.pop("parts"))
        found = Manifest(parts=parts, **plain)
        check_fields(found)
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(
            f"{path} is not a manifest that this tpo can read ({type(error).__name__}: {error}): "
            "use the tpo that wrote it, or remove the file and run the study again, which keeps finished runs"
        ) from error
    return found


def read_all(folder: Path) -> list[Manifest]:
    """Every manifest of the folder; raises if there is none."""
    if not folder.exists():
        raise ValueError(
            f"{folder} does not exist: give the folder that tpo run or tpo train --compare wrote"
        )
    names = sorted(path.stem for path in (folder / "studies").glob("*.json"))
    found = [manifest for name in names if (manifest := read(folder, name))]
    if not found:
        raise ValueError(
            f"{folder} holds no results of a study: run one first, "
            f"such as: tpo run terminal --scale quick --out {folder}"
        )
    return found


def provenance(first_seed: int, seeds: int, device: str) -> dict[str, Any]:
    """What a reader needs to run it again: code, versions, machine, seeds, day."""
    return {
        "commit": commit(),
        "versions": versions(PACKAGES),
        "device": device,
        "seeds": f"{first_seed}..{first_seed + seeds - 1}",
        "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d"),
    }

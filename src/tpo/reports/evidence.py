"""Evidence: what is kept of finished runs in the repository, one JSON file per study.

FOLDER/NAME.json holds how the study was asked for, the origins of its runs (commit, versions, device,
seeds, day) and one line per part: tracks (`tpo.reports.series`), or arrays where a study has no curves.
Every number of a table, a verdict or a figure follows from it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tpo.lab import studies
from tpo.lab.studies.manifest import Manifest, PlannedCell
from tpo.lab.studies.method_specs import fitting_objectives, label
from tpo.lab.studies.study import Study
from tpo.reports.load import Loaded, Record
from tpo.reports.series import Track
from tpo.storage.files import read_json, write_text

FORMAT = 1
ASKED = ("scale", "seeds", "episodes", "settings")
"""Of the manifest; the command follows from the parts."""


def files(folder: Path) -> list[Path]:
    """The files of evidence in a folder."""
    return sorted(folder.glob("*.json"))


def write(folder: Path, records: Sequence[Record]) -> list[Path]:
    """Write the finished parts of each study; a study without one is left alone."""
    kept = [record for record in records if any(part.done for part in record.parts)]
    paths = [folder / f"{record.study.name}.json" for record in kept]
    for path, record in zip(paths, kept, strict=True):
        write_text(path, text(record))
    return paths


def text(record: Record) -> str:
    """The file of a study: a line per part, in the order of the study's grid and methods."""
    done = sorted((part for part in record.parts if part.done), key=_order(record))
    origins = {json.dumps(part.origin, sort_keys=True): part.origin for part in done}
    index = {key: i for i, key in enumerate(origins)}
    head = {"format": FORMAT, "study": record.study.name}
    head |= {name: getattr(record.manifest, name) for name in ASKED}
    head["origins"] = list(origins.values())
    lines = [
        json.dumps(
            _part(part, index[json.dumps(part.origin, sort_keys=True)]), separators=(",", ":")
        )
        for part in done
    ]
    opening = json.dumps(head, indent=1).removesuffix("\n}")
    return opening + ',\n "parts": [\n' + ",\n".join(lines) + "\n]}\n"


def _order(record: Record) -> Any:
    """Earlier points of the grid first, then earlier methods; what is in neither last."""
    study = record.study
    places = [str(coords) for coords in study.coordinates(study.scale(record.manifest.scale))]
    methods = list(study.methods)

    def rank(part: Loaded) -> tuple[int, str, int, str]:
        coords = str(dict(part.coords))
        place = places.index(coords) if coords in places else len(places)
        method = methods.index(part.method) if part.method in methods else len(methods)
        return place, coords, method, part.method

    return rank


def _part(part: Loaded, origin: int) -> dict[str, Any]:
    found: dict[str, Any] = {
        name: getattr(part, name) for name in ("key", "coords", "method", "label", "seeds")
    }
    found |= {"seconds": round(part.seconds, 3), "origin": origin}
    found["tracks"] = {name: track.to_json() for name, track in part.tracks.items()}
    if part.arrays:
        found["arrays"] = {name: _short(values) for name, values in part.arrays.items()}
    return found


def _short(values: np.ndarray) -> Any:
    """Nested lists of short numbers, None where there is none."""
    if values.ndim:
        return [_short(row) for row in values]
    return float(f"{values:.6g}") if np.isfinite(values) else None


def read(folder: Path) -> list[Record]:
    """The record of every file, with the parts of the study that it has not as not run.

    A broken file, or one of another format, is named.
    """
    return [_record(path) for path in files(folder)]


def _record(path: Path) -> Record:

    found = read_json(path)
    version = found.get("format") if isinstance(found, Mapping) else None
    if isinstance(found, Mapping) and "tuning" in found:
        raise ValueError(
            f"{path} is a comparison of language models: tpo evidence shows it in docs/llm-results.md, and "
            "tpo report takes the folder that tpo train --compare wrote"
        )
    if isinstance(found, Mapping) and {"model", "task"} <= set(found):
        raise ValueError(
            f"{path.parent} is one run of tpo train, and its numbers are in result.json: give the folder of "
            "a comparison (tpo train --compare), or of a study (tpo run)"
        )
    if version != FORMAT:
        raise ValueError(
            f"{path} is evidence of format {version}, and this tpo reads format {FORMAT}: restore "
            "it, or write it again from the store with tpo evidence DIR"
        )
    try:
        study = studies.get_study(found["study"])
        parts = [_loaded(part, found["origins"]) for part in found["parts"]]
        there = {part.place for part in parts}
        parts += [part for part in planned(study, found["scale"]) if part.place not in there]
        return Record(study, _manifest(found, parts), tuple(parts))
    except (KeyError, TypeError, IndexError, ValueError) as error:
        raise ValueError(
            f"{path} is not the evidence that tpo wrote ({type(error).__name__}: {error}): restore "
            "it, or write it again from the store with tpo evidence DIR"
        ) from error


def planned(study: Study, scale: str) -> list[Loaded]:
    """Every part of the study at that scale, as one that has not been run."""

    size = study.scale(scale)
    return [
        Loaded("", coords, method, label(method, study.labels), False, 0, {})
        for coords in study.coordinates(size)
        for method in size.methods or study.methods or fitting_objectives()
    ]


def _manifest(found: Mapping[str, Any], parts: Sequence[Loaded]) -> Manifest:

    asked = {name: found[name] for name in ASKED}
    listed = tuple(PlannedCell(part.key, part.coords, part.method, part.label) for part in parts)
    return Manifest(
        name=found["study"], command="", parts=listed, provenance=found["origins"][0], **asked
    )


def _loaded(part: Mapping[str, Any], origins: Sequence[Mapping[str, Any]]) -> Loaded:
    tracks = {name: Track.from_json(track) for name, track in part["tracks"].items()}
    for name, track in tracks.items():
        if track.seeds != part["seeds"]:
            raise ValueError(f"{name} has {track.seeds} seeds, and its part {part['seeds']}")
    return Loaded(
        part["key"],
        part["coords"],
        part["method"],
        part["label"],
        True,
        part["seeds"],
        tracks,
        part["seconds"],
        {name: np.array(x, float) for name, x in part.get("arrays", {}).items()},
        origins[part["origin"]],
    )

"""What several folders know of each study: stores of runs and folders of evidence, put together."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from tpo.lab import studies
from tpo.lab.studies import manifest
from tpo.lab.studies.method_specs import fitting_objectives
from tpo.lab.studies.study import Study
from tpo.reports import evidence
from tpo.reports.load import Loaded, Record, load
from tpo.storage.store import Store


def gather(folders: Sequence[str | Path]) -> list[Record]:
    """A record per study, in the order of `tpo studies`.

    Where folders have the same part, a finished one is taken before an unfinished, then the one with
    more seeds, then the one of the later folder. A run that another study has finished counts here too.
    """

    found: dict[str, tuple[Record, Path]] = {}
    for folder in map(Path, folders):
        for record in _records(folder):
            name = record.study.name
            if name in found:
                record = _joined(*found[name], record, folder)
            found[name] = record, folder
    return shared([found[name][0] for name in studies.list_studies() if name in found])


def shared(records: Sequence[Record]) -> list[Record]:
    """With the unfinished parts whose run (its key), measured alike, is finished in another study."""

    def name(record: Record, part: Loaded) -> tuple[object, ...]:
        study = record.study
        return part.key, study.threshold, *(measure.key for measure in study.measures)

    done = {name(r, part): part for r in records for part in r.parts if part.done}

    def known(record: Record, part: Loaded) -> Loaded:
        found = None if part.done else done.get(name(record, part))
        if found is None:
            return part
        return replace(found, coords=part.coords, method=part.method, label=part.label)

    return [replace(r, parts=tuple(known(r, part) for part in r.parts)) for r in records]


def _records(folder: Path) -> list[Record]:
    if not (folder / "store.json").is_file() and evidence.files(folder):
        return evidence.read(folder)

    manifests = [m for m in manifest.read_all(folder) if m.name in studies.list_studies()]
    store = Store(folder)
    return [
        Record(study, found, tuple(load(store, p, study, found.provenance) for p in found.parts))
        for found in manifests
        for study in [studies.get_study(found.name)]
    ]


def _joined(old: Record, there: Path, new: Record, here: Path) -> Record:
    if old.manifest.scale != new.manifest.scale:
        raise ValueError(
            f"{old.study.name} is at scale {old.manifest.scale} in {there} and at scale "
            f"{new.manifest.scale} in {here}: leave one of them out"
        )
    parts = {part.place: part for part in old.parts}
    for part in new.parts:
        before = parts.get(part.place)
        if before is None or (part.done, part.seeds) >= (before.done, before.seeds):
            parts[part.place] = part
    seeds = max(old.manifest.seeds, new.manifest.seeds)
    return replace(new, manifest=replace(new.manifest, seeds=seeds), parts=tuple(parts.values()))


def combined(origins: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """One mapping of them all: a value where they agree, a list of the values where they differ."""
    found: dict[str, Any] = {}
    for key in dict.fromkeys(key for origin in origins for key in origin):
        values = {json.dumps(origin[key]): origin[key] for origin in origins if key in origin}
        found[key] = next(iter(values.values())) if len(values) == 1 else list(values.values())
    return found


def command(record: Record) -> str:
    """What runs these parts again; parts with another number of seeds than the scale's on their own."""
    study, scale = record.study, record.manifest.scale
    size, asked = study.scale(scale), record.manifest.seeds
    by_seeds: dict[int, list[Loaded]] = {}
    for part in record.parts:
        usual = size.settings_at(study, part.coords)["seeds"] if part.seeds else size.seeds
        seeds = part.seeds or asked
        by_seeds.setdefault(0 if seeds == usual else seeds, []).append(part)
    return " && ".join(_command(study, scale, n, parts) for n, parts in sorted(by_seeds.items()))


def _command(study: Study, scale: str, seeds: int, parts: Sequence[Loaded]) -> str:

    size = study.scale(scale)
    words = ["tpo", "run", study.name, "--scale", scale]
    words += ["--seeds", str(seeds)] if seeds else []
    methods = list(dict.fromkeys(part.method for part in parts))
    if set(methods) != set(size.methods or study.methods or fitting_objectives()):
        words += ["--methods", ",".join(methods)]
    for axis, values in {**study.grid, **size.grid}.items():
        used = list(dict.fromkeys(str(part.coords[axis]) for part in parts))
        if set(used) != set(map(str, values)):
            words += ["--only", f"{axis}={','.join(used)}"]
    return shlex.join(words)

"""Results of studies from several folders, stores of runs and folders of evidence, merged by study."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from tpo import declarations
from tpo.declarations import manifest
from tpo.declarations.study import Study
from tpo.reports import evidence
from tpo.reports.load import CellResult, StudyResult, load
from tpo.storage.store import Store


def gather(folders: Sequence[str | Path]) -> list[StudyResult]:
    """A result per study, in the order of `tpo studies`.

    If several folders have a cell, a finished one wins over an unfinished one, then the one with more seeds,
    then the one of the later folder. A run that is finished in another study counts in this one too.
    """
    found: dict[str, tuple[StudyResult, Path]] = {}
    for folder in map(Path, folders):
        for result in _read(folder):
            name = result.study.name
            if name in found:
                result = _joined(*found[name], result, folder)
            found[name] = result, folder
    names = dict.fromkeys([*declarations.list_studies(), *found])
    return shared([found[name][0] for name in names if name in found])


def shared(results: Sequence[StudyResult]) -> list[StudyResult]:
    """The results, with unfinished cells taken from other studies that finished the same run.

    The same run has the same key, threshold and measures.
    """

    def name(result: StudyResult, cell: CellResult) -> tuple[object, ...]:
        study = result.study
        return cell.key, study.threshold, *(measure.key for measure in study.measures)

    done = {name(r, cell): cell for r in results for cell in r.cells if cell.done}

    def known(result: StudyResult, cell: CellResult) -> CellResult:
        found = None if cell.done else done.get(name(result, cell))
        if found is None:
            return cell
        return replace(found, coords=cell.coords, method=cell.method, label=cell.label)

    return [replace(r, cells=tuple(known(r, cell) for cell in r.cells)) for r in results]


def _read(folder: Path) -> list[StudyResult]:
    if not os.path.lexists(folder / "store.json") and evidence.files(folder):
        return evidence.read(folder)

    manifests = manifest.read_all(folder)
    store = Store(folder)
    return [
        StudyResult(
            study, found, tuple(load(store, p, study, found.provenance) for p in found.parts)
        )
        for found in manifests
        if (study := declarations.declared(found)) is not None
    ]


def _joined(old: StudyResult, there: Path, new: StudyResult, here: Path) -> StudyResult:
    if old.manifest.scale != new.manifest.scale:
        raise ValueError(
            f"{old.study.name} is at scale {old.manifest.scale} in {there} and at scale "
            f"{new.manifest.scale} in {here}: leave out one of the two folders"
        )
    cells = {cell.place: cell for cell in old.cells}
    for cell in new.cells:
        before = cells.get(cell.place)
        if before is None or (cell.done, cell.seeds) >= (before.done, before.seeds):
            cells[cell.place] = cell
    seeds = max(old.manifest.seeds, new.manifest.seeds)
    return replace(new, manifest=replace(new.manifest, seeds=seeds), cells=tuple(cells.values()))


def combined(origins: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """One mapping for all: the value of a key if they agree, else the list of values."""
    found: dict[str, Any] = {}
    for key in dict.fromkeys(key for origin in origins for key in origin):
        values = {json.dumps(origin[key]): origin[key] for origin in origins if key in origin}
        found[key] = next(iter(values.values())) if len(values) == 1 else list(values.values())
    return found


def command(result: StudyResult) -> str:
    """The command that repeats these cells; one for each first seed, and for other numbers of seeds.

    Of a study that the library does not know by name, the command that was typed.
    """
    study, scale = result.study, result.manifest.scale
    if study.name not in declarations.list_studies() and result.manifest.command:
        return result.manifest.command
    size, asked = study.scale(scale), result.manifest.seeds
    by_seeds: dict[tuple[int, int], list[CellResult]] = {}
    for cell in result.cells:
        usual = size.settings_at(study, cell.coords)["seeds"] if cell.seeds else size.seeds
        seeds = cell.seeds or asked
        drawn = (0 if seeds == usual else seeds), _first_seed(cell, result)
        by_seeds.setdefault(drawn, []).append(cell)
    return " && ".join(_command(study, scale, n, cells) for n, cells in sorted(by_seeds.items()))


def _first_seed(cell: CellResult, result: StudyResult) -> int:
    """The first of the cell's seeds, from what was noted of its run (`4..7`), else of the study."""
    known = cell.origin.get("seeds") or result.manifest.provenance.get("seeds")
    return int(str(known).partition("..")[0]) if known else 0


def _command(study: Study, scale: str, drawn: tuple[int, int], cells: Sequence[CellResult]) -> str:
    size, (seeds, first) = study.scale(scale), drawn
    words = ["tpo", "run", study.name, "--scale", scale]
    words += ["--seeds", str(seeds)] if seeds else []
    words += ["--seed-offset", str(first)] if first else []
    methods = list(dict.fromkeys(cell.method for cell in cells))
    if set(methods) != set(size.methods or study.methods):
        words += ["--methods", ",".join(methods)]
    for axis, values in {**study.grid, **size.grid}.items():
        used = list(dict.fromkeys(str(cell.coords[axis]) for cell in cells))
        if set(used) != set(map(str, values)):
            words += ["--only", f"{axis}={','.join(used)}"]
    return shlex.join(words)

"""Evidence: the results of finished runs that are kept in the repository, one JSON file per study.

FOLDER/NAME.json holds the request of the study, the origins of its runs (commit, versions, device, seeds,
date), the study's declaration, so that a report needs no catalog, and one line per cell. Where
`tpo.lab.studies` is imported, its study of that name counts; `tpo evidence` renews the declaration. A line has
the cell's series (`tpo.reports.series`; the key is "tracks"), or arrays if the study has no curves. Every
number of a table, a verdict or a figure follows from this file.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tpo import declarations
from tpo.declarations.manifest import Manifest, PlannedCell
from tpo.declarations.study import Study
from tpo.objectives.method_syntax import label
from tpo.reports.load import CellResult, StudyResult
from tpo.reports.series import Series
from tpo.storage.files import read_json, write_text
from tpo.storage.shapes import check_fields

FORMAT = 1
PARTS = ' "parts": [\n'
"""The line of a file after which each line is a cell."""
ASKED = ("scale", "seeds", "episodes", "settings")
"""Fields of the manifest that are kept; the command follows from the cells."""


def files(folder: Path) -> list[Path]:
    """The files of evidence in a folder."""
    return sorted(folder.glob("*.json"))


def write(folder: Path, results: Sequence[StudyResult]) -> list[Path]:
    """Write the finished cells of each study; nothing for a study without one."""
    kept = [result for result in results if any(cell.done for cell in result.cells)]
    paths = [folder / f"{result.study.name}.json" for result in kept]
    for path, result in zip(paths, kept, strict=True):
        write_text(path, text(result))
    return paths


def text(result: StudyResult) -> str:
    """The content of a study's file: a line per cell, in the order of the study's grid and methods."""
    done = sorted((cell for cell in result.cells if cell.done), key=_order(result))
    origins = {json.dumps(cell.origin, sort_keys=True): cell.origin for cell in done}
    index = {key: i for i, key in enumerate(origins)}
    head: dict[str, Any] = {"format": FORMAT, "study": result.study.name}
    if result.study.name not in declarations.list_studies():
        head["command"] = result.manifest.command
    head |= {name: getattr(result.manifest, name) for name in ASKED}
    head["origins"] = list(origins.values())
    lines = [
        json.dumps(
            _line(cell, index[json.dumps(cell.origin, sort_keys=True)]), separators=(",", ":")
        )
        for cell in done
    ]
    opening = json.dumps(head, indent=1).removesuffix("\n}")
    return f"{opening},\n{_declaration(result.study)}{PARTS}" + ",\n".join(lines) + "\n]}\n"


def _declaration(study: Study) -> str:
    """The line of a file that declares the study."""
    return f' "declaration": {json.dumps(study.to_json(), separators=(",", ":"))},\n'


def renewed(content: str, study: Study) -> str:
    """The content of a file with the study as it is declared now; its runs and their order stay."""
    head, parts, runs = content.partition(PARTS)
    kept = [line for line in head.splitlines(True) if not line.startswith(' "declaration": ')]
    return "".join(kept) + _declaration(study) + parts + runs


def _order(result: StudyResult) -> Any:
    """A sort key: the order of the grid, then of the methods; unknown points and methods come last."""
    study = result.study
    places = [str(coords) for coords in study.coordinates(study.scale(result.manifest.scale))]
    methods = list(study.methods)

    def rank(cell: CellResult) -> tuple[int, str, int, str]:
        coords = str(dict(cell.coords))
        place = places.index(coords) if coords in places else len(places)
        method = methods.index(cell.method) if cell.method in methods else len(methods)
        return place, coords, method, cell.method

    return rank


def _line(cell: CellResult, origin: int) -> dict[str, Any]:
    found: dict[str, Any] = {
        name: getattr(cell, name) for name in ("key", "coords", "method", "label", "seeds")
    }
    found |= {"seconds": round(cell.seconds, 3), "origin": origin}
    found["tracks"] = {name: series.to_json() for name, series in cell.series.items()}
    if cell.arrays:
        found["arrays"] = {name: _short(values) for name, values in cell.arrays.items()}
    return found


def _short(values: np.ndarray) -> Any:
    """Nested lists of numbers with six digits; None for a missing one."""
    if values.ndim:
        return [_short(row) for row in values]
    return float(f"{values:.6g}") if np.isfinite(values) else None


def read(folder: Path) -> list[StudyResult]:
    """The result of every file; cells of the study that a file does not have count as not run.

    The error for a broken file, or one of another format, names the file.
    """
    return [_study_result(path) for path in files(folder)]


def _study_result(path: Path) -> StudyResult:

    found = read_json(path)
    version = found.get("format") if isinstance(found, Mapping) else None
    if isinstance(found, Mapping) and "tuning" in found:
        raise ValueError(
            f"{path} is a comparison of language models, which tpo evidence shows in "
            "docs/research/comparisons: give tpo report the folder that tpo train --compare wrote"
        )
    if isinstance(found, Mapping) and {"model", "task"} <= set(found):
        raise ValueError(
            f"{path.parent} is one run of tpo train, with its numbers in result.json: give the folder of "
            "a comparison (tpo train --compare), or of a study (tpo run)"
        )
    if version != FORMAT:
        raise ValueError(
            f"{path} has format {version}, and this version of tpo reads format {FORMAT}: restore "
            "the file, or write it again from the store with tpo evidence DIR"
        )
    try:
        json.dumps(found, allow_nan=False)
        study = _study(found)
        cells = [_cell_result(cell, found["origins"]) for cell in found["parts"]]
        there = {cell.place for cell in cells}
        cells += [cell for cell in planned(study, found["scale"]) if cell.place not in there]
        result = StudyResult(study, _manifest(found, cells), tuple(cells))
        check_fields(result)
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise ValueError(
            f"{path} is damaged ({type(error).__name__}: {error}): restore the file, or write it again "
            "from the store with tpo evidence DIR"
        ) from error
    return result


def _study(found: Mapping[str, Any]) -> Study:
    """The known study of that name, else the one that the file declares."""
    name, own = found["study"], found.get("declaration")
    if name in declarations.list_studies() or not own or own["name"] != name:
        return declarations.get_study(name)
    return Study.from_json(own)


def planned(study: Study, scale: str) -> list[CellResult]:
    """Every cell of the study at that scale, as not run."""
    size = study.scale(scale)
    return [
        CellResult("", coords, method, label(method, study.labels), False, 0, {})
        for coords in study.coordinates(size)
        for method in size.methods or study.methods
    ]


def _manifest(found: Mapping[str, Any], cells: Sequence[CellResult]) -> Manifest:

    asked = {name: found[name] for name in ASKED}
    listed = tuple(PlannedCell(cell.key, cell.coords, cell.method, cell.label) for cell in cells)
    return Manifest(
        name=found["study"],
        command=found.get("command", ""),
        parts=listed,
        provenance=found["origins"][0],
        **asked,
    )


def _cell_result(cell: Mapping[str, Any], origins: Sequence[Mapping[str, Any]]) -> CellResult:
    series = {name: Series.from_json(one) for name, one in cell["tracks"].items()}
    for name, one in series.items():
        if one.seeds != cell["seeds"]:
            raise ValueError(f"{name} has {one.seeds} seeds, and its cell has {cell['seeds']}")
    return CellResult(
        cell["key"],
        cell["coords"],
        cell["method"],
        cell["label"],
        True,
        cell["seeds"],
        series,
        cell["seconds"],
        {name: np.array(x, float) for name, x in cell.get("arrays", {}).items()},
        origins[cell["origin"]],
    )

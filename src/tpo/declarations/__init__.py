"""What studies declare, and what a store says of itself: plain data, read alike by the lab and by reports.

A store holds the declaration of each study that was run in it. Only stores of earlier versions and the evidence
need the studies that are known here by name: those of the library, once `tpo.lab.studies` is imported.
"""

from __future__ import annotations

from tpo.checks import close_match
from tpo.declarations.manifest import Manifest
from tpo.declarations.study import Study

_KNOWN: dict[str, Study] = {}


def register(study: Study) -> Study:
    """Make a study of your own known to `tpo run`, `tpo studies` and the report."""
    if _KNOWN.get(study.name, study) is not study:
        raise ValueError(f"study {study.name!r} exists already: choose another name")
    _KNOWN[study.name] = study
    return study


def get_study(name: str) -> Study:
    """The study of that name; an unknown name lists the valid ones."""
    if name not in _KNOWN:
        valid = ", ".join(_KNOWN) or "none before tpo.lab.studies is imported"
        raise ValueError(f"unknown study {name!r}.{close_match(name, _KNOWN)} Valid names: {valid}")
    return _KNOWN[name]


def list_studies(extra: bool = True) -> list[str]:
    """The names of all studies, in the order of the paper; without `extra`, of the paper's only."""
    return [name for name, found in _KNOWN.items() if extra or not found.extra]


def declared(found: Manifest) -> Study | None:
    """The study that a manifest declares. An earlier version declared none: then the known one of its name."""
    if found.study is None:
        return _KNOWN.get(found.name) if _KNOWN else get_study(found.name)
    try:
        return Study.from_json(found.study)
    except (KeyError, TypeError) as error:
        raise ValueError(
            f"studies/{found.name}.json declares a study that this tpo cannot read "
            f"({type(error).__name__}: {error}): use the tpo that wrote it, or run the study again"
        ) from error

"""The registry of studies: each figure and table of the paper and the talk, declared as data."""

from __future__ import annotations

from typing import Any

from tpo.checks import close_match
from tpo.lab.names import SCALES
from tpo.lab.studies.catalog import bandits, critics, dense, terminal
from tpo.lab.studies.manifest import Manifest
from tpo.lab.studies.published import Published, published_numbers
from tpo.lab.studies.study import Measure, Scale, Study
from tpo.stats.verdicts import Claim

_REGISTRY: dict[str, Study] = {}


def register(study: Study) -> Study:
    """Make a study of your own known to `tpo run`, `tpo studies` and the report."""
    if _REGISTRY.get(study.name, study) is not study:
        raise ValueError(f"study {study.name!r} exists already: choose another name")
    _REGISTRY[study.name] = study
    return study


def get_study(name: str) -> Study:
    """The study of that name; an unknown name lists the valid ones."""
    if name not in _REGISTRY:
        hint = close_match(name, _REGISTRY)
        raise ValueError(f"unknown study {name!r}.{hint} Valid names: {', '.join(_REGISTRY)}")
    return _REGISTRY[name]


def list_studies(extra: bool = True) -> list[str]:
    """The names of all studies, in the order of the paper; without `extra`, of the paper's only."""
    return [name for name, found in _REGISTRY.items() if extra or not found.extra]


for _study in (
    *bandits.STUDIES,
    *dense.STUDIES,
    *terminal.STUDIES,
    *dense.LATER_STUDIES,
    *bandits.TALK_STUDIES,
    *terminal.EXTRA_STUDIES,
    *dense.EXTRA_STUDIES,
    *critics.STUDIES,
):
    register(_study)
_BUILT_IN = frozenset(_REGISTRY)


def declaration(study: Study) -> dict[str, Any] | None:
    """What a store keeps of a study of your own; None for the library's."""
    return None if study.name in _BUILT_IN else study.to_json()


def declared(found: Manifest) -> Study | None:
    """The study of a manifest: the registered one of that name, else the one that it declares."""
    if found.name in _REGISTRY:
        return _REGISTRY[found.name]
    try:
        return Study.from_json(found.study) if found.study else None
    except (KeyError, TypeError) as error:
        raise ValueError(
            f"studies/{found.name}.json declares a study that this tpo cannot read "
            f"({type(error).__name__}: {error}): use the tpo that wrote it, or run the study again"
        ) from error


__all__ = [
    "SCALES", "Claim", "Measure", "Published", "Scale", "Study", "declaration", "declared", "get_study",
    "list_studies", "published_numbers", "register",
]  # fmt: skip

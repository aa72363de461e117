"""Checks of what was asked of a study: every name and number, before JAX is imported."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tpo.checks import close_match
from tpo.declarations.study import Study
from tpo.diagnostics.population import METHODS as POPULATION
from tpo.lab.names import BUILDS, MECHANISMS
from tpo.lab.studies.method_specs import bandit_row, sequence_row
from tpo.objectives.base import check_group_size
from tpo.objectives.method_syntax import parse
from tpo.options import COUNT, WHOLE, one_of, optional

WITHOUT_SEEDS = ("mechanism", "talk")
"""Builds of studies that train no cell, so that no seed is their first."""


def check_request(
    study: Study,
    scale: str,
    seeds: int | None = None,
    methods: Sequence[str] = (),
    only: Mapping[str, str] | None = None,
    first_seed: int = 0,
) -> None:
    """Raise what is wrong; what depends on several options at once is left to the cells."""
    one_of(*BUILDS).check(f"study {study.name}: build", study.build)
    found = study.scale(scale)
    study.coordinates(found, only)
    optional(COUNT).check("--seeds", seeds)
    WHOLE.check("--seed-offset", first_seed)
    if first_seed and study.build in WITHOUT_SEEDS:
        raise ValueError(f"--seed-offset is {first_seed}, and {study.name} trains nothing: omit it")
    for method in methods or found.methods or study.methods:
        _CHECKS[study.build](study, method)


def _sequences(study: Study, method: str) -> None:
    row = sequence_row(method)
    if row.kind in ("sequence", "token") and "K" in study.settings:
        check_group_size(row.objective, "K", study.settings["K"])


def _mechanism(study: Study, method: str) -> None:
    _named(method, "has no closed form of its expected update", MECHANISMS)


def _many_contexts(study: Study, method: str) -> None:
    name, _ = parse(method)
    _named(name, "has no exact update of a population", POPULATION)


def _talk(study: Study, method: str) -> None:
    if method != "tpo":
        raise ValueError(
            f"--methods is {method!r}, and the talk's numbers come for all methods at once"
        )


def _named(method: str, what_it_lacks: str, valid: Sequence[str]) -> None:
    if method not in valid:
        hint = close_match(method, valid)
        raise ValueError(
            f"method {method!r} {what_it_lacks}, expected one of {', '.join(valid)}.{hint}"
        )


_CHECKS: dict[str, Callable[[Study, str], Any]] = {
    "sequences": _sequences,
    "codes": _sequences,
    "images": lambda study, method: bandit_row(method),
    "one_context": lambda study, method: bandit_row(method),
    "many_contexts": _many_contexts,
    "mechanism": _mechanism,
    "talk": _talk,
}

"""`--sweep NAME=A,B`: one more axis of a study, over a setting of its cells."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from tpo.checks import close_match
from tpo.declarations.study import Study
from tpo.lab.studies.own_runs import OwnRun
from tpo.options import COUNT, POSITIVE, WHOLE, Kind, is_number, kinds, whole

Field = tuple[str, Kind]
"""A setting, and what it accepts."""

_TRAINING: dict[str, Field] = {"batch": ("B", COUNT), "episodes": ("episodes", COUNT)}
_RATE: dict[str, Field] = {"learning_rate": ("learning_rate", POSITIVE)}
_STEP: dict[str, Field] = {"learning_rate": ("step", POSITIVE)}
FIELDS: dict[str, dict[str, Field]] = {
    "sequences": {
        **_RATE,
        **_TRAINING,
        "group_size": ("K", COUNT),
        "epochs": ("epochs", COUNT),
        "eta": ("eta", POSITIVE),
        "horizon": ("H", COUNT),
        "vocab": ("V", whole(2)),
        "width": ("width", COUNT),
        "layers": ("layers", COUNT),
    },
    "images": {**_RATE, **_TRAINING, "delay": ("D", WHOLE)},
    "one_context": {**_STEP, **_TRAINING, "arms": ("A", whole(2))},
    "many_contexts": {**_STEP, "episodes": ("episodes", COUNT), "arms": ("A", whole(2))},
    "codes": {**_RATE, **_TRAINING, "group_size": ("K", COUNT), "epochs": ("epochs", COUNT)},
    "mechanism": _TRAINING,
    "talk": {},
    "own": {k: (k, kind) for k, kind in kinds(OwnRun).items() if k not in ("task", "mnist_path")},
}
"""By what a study's runs are made by: the names of a sweep."""


def axes(build: str, texts: Iterable[str]) -> dict[str, tuple[Any, ...]]:
    """{"K": (4, 8)} of ["group_size=4,8"], or of ["K=4,8"]; a wrong name lists the valid ones."""
    known = FIELDS[build]
    by_setting = {setting: (setting, kind) for setting, kind in known.values()}
    found: dict[str, tuple[Any, ...]] = {}
    for text in texts:
        name, _, values = text.partition("=")
        if name not in {**known, **by_setting}:
            valid = f"expected one of {', '.join(known)}" if known else "it trains nothing"
            raise ValueError(
                f"--sweep {text}: {name!r} is unknown.{close_match(name, known)} {valid}"
            )
        setting, kind = {**by_setting, **known}[name]
        read = [kind.value(f"--sweep {text}: {name}", value) for value in values.split(",")]
        found[setting] = tuple(dict.fromkeys((*found.get(setting, ()), *read)))
    return found


def swept(study: Study, over: Mapping[str, tuple[Any, ...]]) -> Study:
    """The study with these axes, under a name of its own: published numbers are for its usual settings."""
    if not over:
        return study
    scales = {
        name: replace(scale, grid={k: v for k, v in scale.grid.items() if k not in over})
        for name, scale in study.scales.items()
    }
    numbers = [name for name, values in over.items() if all(map(is_number, values))]
    return replace(
        study,
        name="-".join([study.name, "by", *over]),
        title=f"{study.title}, by {' and '.join(over)}",
        scales=scales,
        grid={**study.grid, **over},
        sweep=numbers[0] if numbers else study.sweep,
        published=(),
        extra=True,
    )

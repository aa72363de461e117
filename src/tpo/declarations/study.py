"""Study: a figure or a table of the paper as a value. Plain data; nothing here trains or draws."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from itertools import product
from typing import Any

from tpo.declarations.published import Published
from tpo.stats.verdicts import Claim
from tpo.storage.shapes import check_fields

Settings = Mapping[str, Any]


@dataclass(frozen=True)
class Scale:
    """The size of a run of a study: seeds, episodes, and other changes of the paper's setting.

    grid replaces the values of the axes it names; methods, if given, replaces the methods; adjust
    changes settings (seeds and episodes too) at one value of an axis: {("H", 7): {"episodes": 500}}.
    """

    seeds: int
    episodes: int
    settings: Settings = field(default_factory=dict)
    grid: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    methods: tuple[str, ...] = ()
    adjust: Mapping[tuple[str, Any], Settings] = field(default_factory=dict)

    def settings_at(self, study: Study, coords: Settings) -> dict[str, Any]:
        """All settings at one point of the grid, as a builder needs them."""
        found = {"seeds": self.seeds, "episodes": self.episodes, **study.settings, **self.settings}
        for item in coords.items():
            found |= self.adjust.get(item, {})
        return {**found, **coords}


@dataclass(frozen=True)
class Measure:
    """A curve to draw: its name in the store and its label; log for a logarithmic axis."""

    key: str
    label: str
    log: bool = False


ERROR = Measure("error", "error", log=True)
EXPLAINED = Measure("explained_variance", "variance of returns that the critic explains")


@dataclass(frozen=True)
class Study:
    """What is run, over which grid, by which methods, and what the paper claims.

    question: what the runs answer, with which a report opens; about: how it is asked, in sentences.
    build: the name of a function in `tpo.lab.studies.builders`, which makes a cell from the settings.
    grid: axes whose values override settings; every combination is run with every method.
    measures: the table and the verdicts use the first. series: axes drawn as curves of one panel.
    sweep: an axis against which the end of the curves is drawn as well. view: how results become panels,
    "curves" by default. labels: other names of methods. ranked: sort the table by error, lowest first.
    extra: not part of `tpo run all`. published: the numbers that were published for it.
    """

    name: str
    title: str
    source: str
    about: str
    build: str
    methods: tuple[str, ...]
    settings: Settings
    scales: Mapping[str, Scale]
    question: str = ""
    grid: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    measures: tuple[Measure, ...] = (ERROR,)
    series: tuple[str, ...] = ()
    sweep: str = ""
    claims: tuple[Claim, ...] = ()
    threshold: float = 0.01
    view: str = "curves"
    x_label: str = "episode"
    labels: Mapping[str, str] = field(default_factory=dict)
    ranked: bool = False
    extra: bool = False
    published: tuple[Published, ...] = ()

    def __post_init__(self) -> None:
        check_fields(self)
        if not self.measures:
            raise ValueError(
                "measures is empty, expected the names of curves, the first for the table"
            )

    def scale(self, name: str) -> Scale:
        """The scale of that name; an unknown one lists the valid ones."""
        if name not in self.scales:
            raise ValueError(f"scale is {name!r}, expected one of {', '.join(self.scales)}")
        return self.scales[name]

    def to_json(self) -> dict[str, Any]:
        """Plain values, from which `from_json` makes an equal study."""
        found = asdict(self)
        for scale in found["scales"].values():
            scale["adjust"] = [[*place, changes] for place, changes in scale["adjust"].items()]
        return found

    @staticmethod
    def from_json(plain: Mapping[str, Any]) -> Study:
        """The study that `to_json` wrote."""
        found = _with_tuples(plain)
        found["measures"] = tuple(Measure(**one) for one in plain["measures"])
        found["claims"] = tuple(Claim(**_with_tuples(one)) for one in plain["claims"])
        found["published"] = tuple(Published(**one) for one in plain.get("published", ()))
        found["scales"] = {name: _scale(one) for name, one in plain["scales"].items()}
        found["grid"] = _with_tuples(plain["grid"])
        return Study(**found)

    def coordinates(
        self, scale: Scale, only: Mapping[str, str] | None = None
    ) -> list[dict[str, Any]]:
        """The points of the grid, those that match `only` (values as text, several with commas).

        `only` may also name values that the full study has and this scale leaves out.
        """
        axes = {**self.grid, **scale.grid}
        for key, wanted in (only or {}).items():
            if key not in axes:
                raise ValueError(f"--only {key}={wanted}: {self.name} has {_axes_text(key, axes)}")
            valid = dict.fromkeys((*axes[key], *self.grid[key]))
            named = wanted.split(",")
            unknown = [text for text in named if text not in map(str, valid)]
            if unknown:
                listing = ", ".join(map(str, valid))
                raise ValueError(
                    f"--only {key}={wanted}: {key} is {unknown[0]!r}, expected some of {listing}"
                )
            axes[key] = tuple(v for v in valid if str(v) in named)
        return [dict(zip(axes, values, strict=True)) for values in product(*axes.values())]


def _scale(plain: Mapping[str, Any]) -> Scale:
    adjust = {(axis, value): changes for axis, value, changes in plain["adjust"]}
    found = _with_tuples(plain) | {"grid": _with_tuples(plain["grid"]), "adjust": adjust}
    return Scale(**found)


def _with_tuples(plain: Mapping[str, Any]) -> dict[str, Any]:
    """The mapping with tuples where JSON has lists."""
    return {k: tuple(v) if isinstance(v, list) else v for k, v in plain.items()}


def _axes_text(key: str, axes: Mapping[str, tuple[Any, ...]]) -> str:
    listing = "; ".join(f"{k}: {', '.join(map(str, v))}" for k, v in axes.items())
    if not listing:
        return "one setting, and so no axis to take a part of: leave --only out"
    return f"no axis {key!r}, expected one of {listing}"

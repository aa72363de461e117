"""Results that show themselves in a notebook: `open_results(DIR)`, then `.table()`, `.plot()`, `.csv()`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tpo.declarations.manifest import Manifest
from tpo.declarations.study import ERROR, Scale, Study
from tpo.objectives.method_syntax import label
from tpo.reports.comparisons import read_kept
from tpo.reports.html.elements import Html, element, joined
from tpo.reports.load import CellResult, StudyResult, seeds_of, series_of
from tpo.reports.notebook.table import ResultTable, flat_rows
from tpo.reports.styles import css_classes
from tpo.reports.summary import summarise, summary
from tpo.reports.svg.axes import Axis
from tpo.reports.svg.draw import Figure, Mark, Panel
from tpo.storage.store import Curves

DRAWN = ("curves", "bars")
"""Kinds of panels that `plot` draws."""


@dataclass(frozen=True)
class Results:
    """Summaries of studies, of runs of your own or of comparisons, as `tpo.reports.summary` makes them."""

    studies: tuple[Mapping[str, Any], ...]

    @property
    def names(self) -> list[str]:
        """The names of the studies."""
        return [str(one["name"]) for one in self.studies]

    def __getitem__(self, name: str) -> Results:
        """The results of one study."""
        return Results((self._one(name),))

    def table(self) -> ResultTable:
        """A row per method, setting and metric. `.to_pandas()` and `.csv()` are the same rows."""
        return ResultTable(flat_rows(self.studies))

    def plot(self, name: str = "") -> Figure:
        """The curves of a study, mean over seeds ± standard error; without a name, of the only one."""
        return figure(self._one(name))

    def csv(self) -> str:
        """The table as text with commas."""
        return self.table().csv()

    def to_json(self) -> dict[str, Any]:
        """All of it as plain JSON values: see `tpo.reports.summary.summarise`."""
        return {"studies": [dict(one) for one in self.studies]}

    def _one(self, name: str = "") -> Mapping[str, Any]:
        found = [one for one in self.studies if name in ("", one["name"])]
        if len(found) != 1:
            raise ValueError(
                f"{f'there is no study {name!r}' if name else f'there are {len(found)} studies'}: "
                f"give the name of one, such as {', '.join(map(repr, self.names)) or 'none is there'}"
            )
        return found[0]

    def _repr_html_(self) -> str:
        return joined(*(self._section(one) for one in self.studies))

    def _section(self, one: Mapping[str, Any]) -> Html:
        drawn = Html(figure(one).svg()) if _panels(one) else None
        table = Html(ResultTable(flat_rows([one]))._repr_html_())
        lines = [
            element("p", element("b", v["status"]), f": {v['claim']}. {v['detail']}")
            for v in one["verdicts"]
        ]
        return element("section", element("h4", one["title"]), drawn, table, *lines)

    def __repr__(self) -> str:
        return "\n\n".join(
            f"{one['title']} ({one['name']})\n{ResultTable(flat_rows([one]))}"
            for one in self.studies
        )


def open_results(*places: str | Path) -> Results:
    """What `tpo run --out DIR` wrote, complete or not; a folder of evidence, such as docs/evidence; or files of
    comparisons of language models, such as docs/evidence/llm/NAME.json.
    """
    kept = [Path(place) for place in places if Path(place).suffix == ".json"]
    folders = [place for place in places if Path(place) not in kept]
    studies = summarise(*folders) if folders else []
    return Results((*studies, *(read_kept(path) | {"name": path.stem} for path in kept)))


def results_of(curves: Mapping[str, Curves], title: str = "own runs") -> Results:
    """The results of runs that were not saved: {"tpo": tpo.lab.training.run(cell), ...}."""
    first = next(iter(curves.values()))["error"]
    study = Study(
        name="run", title=title, source="own run", about="", build="own", methods=tuple(curves),
        settings={}, scales={"own": Scale(*first.shape)}, extra=True,
        measures=(ERROR,),
    )  # fmt: skip
    return Results((summary(in_memory(study, curves)),))


def in_memory(study: Study, curves: Mapping[str, Curves], command: str = "") -> StudyResult:
    """A study whose runs are all finished, from their curves by method."""
    seeds, episodes = next(iter(curves.values()))["error"].shape
    cells = tuple(
        CellResult("", {}, name, label(name), True, seeds_of({"cell": {}}, found), series_of(study, found))
        for name, found in curves.items()
    )  # fmt: skip
    (scale,) = study.scales
    asked = Manifest(study.name, scale, seeds, episodes, command, study.settings, ())
    return StudyResult(study, asked, cells)


def figure(one: Mapping[str, Any]) -> Figure:
    """The panels of a summary as one figure."""
    panels = _panels(one)
    if not panels:
        raise ValueError(f"{one['name']} has nothing to draw yet: its runs have not begun")
    styles = css_classes(
        (s.get("method", s["label"]), s["label"]) for panel in panels for s in panel["series"]
    )
    drawn = [_panel(panel, one, styles) for panel in panels]
    note = "mean over seeds, ± one standard error"
    return Figure(str(one["title"]), drawn, list(styles.items()), columns=2, note=note)


def _panels(one: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    return [p for p in one["panels"] if p.get("kind", "curves") in DRAWN and p["series"]]


def _panel(panel: Mapping[str, Any], one: Mapping[str, Any], styles: Mapping[str, str]) -> Panel:
    y = panel.get("y") or one["y"]
    bars = panel.get("kind") == "bars"
    x = (
        Axis("", names=[str(v) for v in panel["series"][0]["x"]])
        if bars
        else Axis(one["x"]["label"])
    )
    marks = [_mark(series, styles[series["label"]], bars) for series in panel["series"]]
    return Panel(panel["title"], x, Axis(y["label"], bool(y.get("log"))), marks)


def _mark(series: Mapping[str, Any], style: str, bars: bool) -> Mark:
    ys = series["y"] if bars else series["mean"]
    xs = list(range(len(ys))) if bars else series["x"]
    known = [i for i, y in enumerate(ys) if y is not None]
    error = series.get("se") or [0.0] * len(ys)
    return Mark(
        "bars" if bars else "line",
        style,
        [xs[i] for i in known],
        [ys[i] for i in known],
        [error[i] or 0.0 for i in known],
    )

"""Views of studies that have no learning curves: the talk's diagnostics and the MNIST mechanism."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tpo.declarations.published import Published
from tpo.declarations.study import Study
from tpo.objectives.method_syntax import label as named
from tpo.reports.load import CellResult
from tpo.reports.tables import Ours, columns
from tpo.stats.intervals import Interval, interval, iqm, standard_error
from tpo.stats.repetition import agreement
from tpo.stats.verdicts import MethodResult, verdict
from tpo.storage.numbers import number, plain

View = Callable[["Study", Sequence[CellResult]], dict[str, Any]]


def talk(study: Study, cells: Sequence[CellResult]) -> dict[str, Any]:
    """Bars of the three diagnostics, arrows on the simplex, and the published numbers beside ours."""
    if not cells[0].done:
        return _nothing()
    found = cells[0].arrays
    methods = [named(name) for name in ("ce", "pg", "dg", "grpo", "tpo")]
    share = [
        {"label": "coefficient", "x": methods, "y": plain(found["share_coefficient"])},
        {"label": "gradient norm", "x": methods, "y": plain(found["share_gradient"])},
    ]
    candidates = [f"p = {p:g}, {'right' if r else 'wrong'}"
                  for p, r in zip(found["rare_p"], found["rare_rewards"], strict=True)]  # fmt: skip
    sizes = [f"K = {k:.0f}" for k in found["wall_sizes"]]
    bounds = [
        {"label": "clip bound", "x": sizes, "y": plain(found["wall_clipped"])},
        {"label": "TPO target", "x": sizes, "y": plain(found["wall_target"])},
    ]
    panels = [
        _bars("Update of the easy prompt relative to the hard prompt", "ratio", share),
        _bars("Push on each candidate", "q - p_old",
              [{"label": "TPO", "x": candidates, "y": plain(found["rare"])}]),
        _bars("Clip bound and TPO target of a success of p = 0.01", "probability", bounds),
        _simplex(found),
    ]  # fmt: skip
    table = _talk_rows(study, found)
    return {"panels": panels, "table": _table(table), "profiles": [], "verdicts": []}


def _bars(title: str, label: str, series: list[dict[str, Any]]) -> dict[str, Any]:
    for one in series:
        one.setdefault("se", [0.0] * len(one["y"]))
    y = {"label": label, "log": False}
    return {"title": title, "kind": "bars", "coords": {}, "y": y, "series": series}


def _simplex(found: Mapping[str, np.ndarray]) -> dict[str, Any]:
    start = [plain(p) for p in found["simplex_from"]]
    series = [
        {"label": label, "from": start, "to": [plain(p) for p in found[key]]}
        for key, label in (
            ("simplex_target", "TPO target"), ("simplex_tpo", "TPO step"), ("simplex_grpo", "GRPO step"),
        )
    ]  # fmt: skip
    title = "One update, three candidates of which the first is right"
    corners = ["right", "wrong", "wrong"]
    return {"title": title, "kind": "simplex", "coords": {}, "corners": corners, "series": series}


def _talk_rows(study: Study, found: Mapping[str, np.ndarray]) -> list[dict[str, Any]]:
    """A row per published number, with the exact one."""
    order = ("ce", "pg", "dg", "grpo", "tpo")
    ours = {
        "easy/hard coefficient": dict(zip(order, found["share_coefficient"], strict=True)),
        "beta at p = 0.1": dict(zip(order, found["beta"], strict=True)),
        "lambda, ten actions": {"tpo": found["odds_factor"]},
        **{f"q - p_old, candidate {i + 1}": {"tpo": push} for i, push in enumerate(found["rare"])},
        "push on the common failure over the rare": {"tpo": found["rare"][0] / found["rare"][3]},
        "clipped at, from p = 0.01": {"ppo": found["wall_clipped"][0]},
        "clipped at, from p = 0.9": {"ppo": found["wall_high"]},
    }
    return [
        {"coords": {}, "method": named(p.method), "metric": p.metric, "published": p.value,
         "ours": number(exactly), "agreement": agreement(p.range, p.metric, Interval(exactly, exactly)),
         "n": 1, "done": True}
        for p in study.published
        for exactly in [float(ours[p.metric][p.method])]
    ]  # fmt: skip


def mechanism(study: Study, cells: Sequence[CellResult]) -> dict[str, Any]:
    """Surplus gain by concentration of the wrong probability mass, one series per method."""

    done = [cell for cell in cells if cell.done]
    if not done:
        return _nothing()
    series, table = [], []
    for cell in done:
        surplus = cell.arrays["surplus"]
        bins = [f"{low:g} to {low + 0.25:g}" for low in (0, 0.25, 0.5, 0.75)]
        filled = [x[~np.isnan(x)] for x in surplus.T]
        mean = [x.mean() if len(x) else np.nan for x in filled]
        error = [float(standard_error(x)) for x in filled]
        series.append({"label": cell.label, "x": bins, "y": plain(mean), "se": plain(error)})
        known = [p for p in study.published if p.fits(study.name, cell.coords, cell.method)]
        table.append(_surplus_row(cell, known[0] if known else None))
    title = "Gain in p(right) beyond the symmetric surrogate, by concentration of the wrong probability mass"
    evaluated = [_evaluated(cell) for cell in done]
    verdicts = [verdict(claim, evaluated) for claim in study.claims]
    panels = [_bars(title, "surplus gain", series)]
    return {"panels": panels, "table": _table(table), "profiles": [], "verdicts": verdicts}


def _top(cell: CellResult) -> np.ndarray:
    """[seeds] the surplus in the most concentrated bin, NaN where a seed has no examples there."""
    return cell.arrays["surplus"][:, -1]


def _largest(cell: CellResult) -> np.ndarray:
    """[seeds] the largest surplus over bins with examples."""
    return np.asarray(np.nanmax(cell.arrays["surplus"], axis=-1))


def _growth(cell: CellResult) -> np.ndarray:
    """[seeds] the smallest rise of the surplus from one bin to the next, of bins with examples."""
    return np.array([np.diff(x[~np.isnan(x)]).min(initial=np.inf) for x in cell.arrays["surplus"]])


def _surplus_row(cell: CellResult, published: Published | None) -> dict[str, Any]:
    top = _top(cell)
    top = top[~np.isnan(top)]
    row = {
        "coords": dict(cell.coords), "method": cell.label, "metric": "surplus gain, top bin",
        "published": published and published.value, "n": len(top), "done": cell.done,
        "device": cell.origin.get("device"),
    }  # fmt: skip
    if not len(top):
        return row
    low, high = interval([top])
    return {
        **row, **Ours.mean(top).columns(len(top), published), "mean": number(top.mean()),
        "median": number(np.median(top)), "iqm": number(iqm(top)), "iqm_low": number(low),
        "iqm_high": number(high),
    }  # fmt: skip


def _evaluated(cell: CellResult) -> MethodResult:
    measured = {"surplus": _top, "largest surplus": _largest, "smallest growth": _growth}
    return MethodResult(
        cell.coords, cell.method, cell.label, cell.done, lambda metric: measured[metric](cell)
    )


def _table(found: list[dict[str, Any]]) -> dict[str, Any]:
    names = columns(found)
    used = [name for name in names if any(row.get(name) is not None for row in found)]
    return {"columns": used, "rows": found}


def _nothing() -> dict[str, Any]:
    return {"panels": [], "table": {"columns": [], "rows": []}, "profiles": [], "verdicts": []}


VIEWS: dict[str, View] = {"talk": talk, "mechanism": mechanism}


def shown(study: Study, cells: Sequence[CellResult]) -> dict[str, Any]:
    """The view of a study; the error for arrays that are not its own names their folders."""
    try:
        return VIEWS[study.view](study, cells)
    except (LookupError, TypeError, ValueError) as error:
        raise ValueError(
            f"{study.name}: the arrays in {', '.join(cell.key for cell in cells)} are not of this study "
            f"({type(error).__name__}: {error}): remove these folders of the store and run the study again"
        ) from error

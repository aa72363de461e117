"""The numbers of a study as HTML: the telling columns at once, the others on demand; cards on a phone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tpo.reports.html.elements import Html, element
from tpo.reports.story import HELD_OUT, asks_speed
from tpo.reports.wording import (
    FAILURE_COLUMNS,
    FAILURES,
    RIVAL_COLUMNS,
    Column,
    at_end,
    columns,
    failures_meaning,
    number,
    reached,
)

Row = Mapping[str, Any]

LONG = 20
"""A table with more rows is opened on demand."""
AT_LAST = "final error %"
"""The published metric that is read at the last episode, and not over the last 100."""
EXTRA = ("mean", "median", "IQM [95%]", "best", "seeds", "device")
"""Columns on demand."""
PUBLISHED = ("published", "metric", "verdict")
"""Columns about published numbers."""
TELLING = {"final accuracy %": "final accuracy %, greedy", HELD_OUT: "final accuracy %, samples"}
"""Metrics of language models that are shown at once, with their headings."""

READING = {
    "Final error": "the mean over a run's last 100 episodes (the last tenth of shorter runs), then over seeds. "
    "Claims, performance profiles, bars and dots use it too. In brackets: where the value of a repetition with "
    "as many other seeds falls, so wide that two equal experiments differ in at most 6% of simulations.",
    "Published and ours": "the published metric and our value of it. It agrees if our whole bracket is within "
    "3 points of it (steps: 25%). Ours is lower or higher if the bracket leaves it out. Else it is too noisy. "
    "Published final errors are read at the last episode.",
    "Mean, median, IQM, best": "of the error in percent at the last episode, over seeds. IQM is the "
    "interquartile mean, with its 95% bootstrap interval. Best is the lowest point of the mean curve.",
    "Reached 1%": "seeds whose own error is below the threshold at some episode, a training step. Below "
    "1% at the end: those below it at the last one; a seed may relapse. Failed: those above 90% there.",
    "Steps": "the first episode at which the mean over seeds is below the threshold. Median steps: the same of "
    "the median seed; never if at most half of the seeds get there within the run.",
    "Accuracy": "of language models, on held-out prompts: the interquartile mean over seeds, with its 95% "
    "bootstrap interval. A seed that never reaches a level is left out of the rollouts to that level.",
    "Claims": "compared in pairs over seeds. A claim holds if each of its comparisons is significant at 95%. "
    "It does not hold if one is significant the other way, corrected for their number (Holm), or all with one "
    "rival together. Else it is undecided. Effect: the mean difference in units of the root mean square "
    "difference, -1 to 1. 80% power: the effect, or difference, that so many seeds find 8 times in 10.",
    "Bands": "the standard error of the mean over seeds.",
    "Performance profile": "the share of runs with a final error of at most τ; all settings weigh equally. "
    "Higher, and further left, is better.",
}
"""What the words of a report mean; it says so once."""


def numbers(study: Mapping[str, Any]) -> Html | None:
    """The table of a study; nothing without rows."""
    rows = (study.get("table") or {}).get("rows") or []
    if not rows:
        return None
    shown = _by_metric(rows) if _many_metrics(rows) else _by_setting(rows, asks_speed(study))
    records = _methods(rows) if _many_metrics(rows) else rows
    found = _table(study, records, shown)
    title = f"Numbers: {len(records)} {'methods' if _many_metrics(rows) else 'rows'}"
    return element(
        "details",
        element("summary", title),
        _switch(shown),
        found,
        element("p", element("a", "What the columns mean", href="#reading"), class_="small"),
        class_="numbers-box",
        open="" if len(records) <= LONG else None,
    )


def failed(study: Mapping[str, Any]) -> Html | None:
    """Typical seeds and complete failures, on demand; nothing where seeds do not split."""
    rows = study.get("complete_failures") or []
    if not rows:
        return None
    return element(
        "details",
        element("summary", FAILURES),
        _table(study, rows, FAILURE_COLUMNS),
        element("p", failures_meaning(rows), class_="small"),
        class_="numbers-box",
    )


def by_rival(verdict: Mapping[str, Any]) -> list[Html]:
    """The effect and the power of a claim against each rival; nothing where it has none."""
    rows = verdict.get("against") or []
    about = {"title": f"the claim: {verdict['claim']}"}
    return [_table(about, rows, RIVAL_COLUMNS)] if rows else []


def _table(study: Mapping[str, Any], rows: Sequence[Row], shown: Sequence[Column]) -> Html:
    head = [element("th", c.title, scope="col", class_=c.kind) for c in shown]
    styles = study.get("styles", {})
    body = [element("tr", *(_cell(row, c, styles) for c in shown)) for row in rows]
    table = element(
        "table",
        element("caption", f"Numbers of {study.get('title')}", class_="visually-hidden"),
        element("thead", element("tr", *head)),
        element("tbody", *body),
        class_="numbers",
    )
    return scrolling(table, f"Numbers of {study.get('title')}")


def scrolling(table: Html, label: str) -> Html:
    """A table that scrolls within itself where the page is too narrow for it."""
    return element("div", table, class_="scroll", tabindex=0, role="region", aria_label=label)


def _switch(shown: Sequence[Column]) -> Html | None:
    """A box that shows the columns on demand."""
    extra = sum(_is_extra(column) for column in shown)
    if not extra:
        return None
    box = element("input", type="checkbox", class_="all-columns")
    return element("label", box, f" all columns ({extra} more)", class_="columns-switch")


def _cell(row: Row, column: Column, styles: Mapping[str, str]) -> Html:
    text = column.text(row)
    if column.title == "method":
        swatch = element("span", class_=f"swatch {styles[text]}") if text in styles else None
        return element("th", swatch, text, scope="row")
    if column.kind is None:
        text = text.replace("_", " ")
    return element("td", text, class_=column.kind, data_label=column.title)


def _is_extra(column: Column) -> bool:
    return "extra" in (column.kind or "")


def _method(row: Row) -> str:
    return str(row.get("label") or row.get("method"))


def _extra(column: Column) -> Column:
    return column._replace(kind=f"{column.kind or ''} extra".strip())


# ---- a row per setting and method ------------------------------------------------------------


def _by_setting(rows: Sequence[Row], speed: bool) -> list[Column]:
    """The columns of `wording.columns` in the page's order; without published numbers, none about them.

    speed: the study asks for steps, so those of the seeds are shown at once, the end and the mean on demand.
    """
    seeds, end = (reached(rows), "median steps"), (at_end(rows), "steps")
    extra = (*EXTRA, *(end if speed else seeds))
    published = any(row.get("published") is not None for row in rows)
    curves = any(row.get("last100") is not None for row in rows)
    metrics = {_metric(row) for row in rows}
    found = []
    for column in columns(rows):
        if column.title in PUBLISHED and not published:
            continue
        if column.title == "metric" and len(metrics) == 1:
            continue
        if column.title == "published" and len(metrics) == 1:
            column = column._replace(title=f"published {metrics.pop()}")
        column = _renamed(column, published and curves)
        if column.title == "ours" and not published:
            column = column._replace(title="mean")
        found.append(_extra(column) if column.title in extra and curves else column)
    return found


def _renamed(column: Column, at_last: bool) -> Column:
    if column.title == "method":
        return column._replace(text=_method)
    if column.title == "last 100":
        return Column("final error % [95%]", _final)
    if column.title == "metric" and at_last:
        return column._replace(text=_metric)
    return column


def _metric(row: Row) -> str:
    metric = str(row.get("metric") or "")
    return "error % at the last episode" if metric == AT_LAST else metric


def _final(row: Row) -> str:
    low, high = row.get("last100_low"), row.get("last100_high")
    return _bracketed(row.get("last100"), low, high)


def _bracketed(value: object, low: object, high: object) -> str:
    if low is None or high is None:
        return number(value)
    return f"{number(value)} [{number(low)}, {number(high)}]"


# ---- a row per method, a column per metric ---------------------------------------------------


def _many_metrics(rows: Sequence[Row]) -> bool:
    """Whether rows are metrics of the same methods, as those of language models are."""
    return all("last100" not in row and not row.get("coords") for row in rows) and any(
        row.get("metric") == HELD_OUT for row in rows
    )


def _methods(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """One record per method, with its rows by metric."""
    found: dict[str, dict[str, Any]] = {}
    for row in rows:
        one = found.setdefault(_method(row), {"label": _method(row), "metrics": {}})
        one["metrics"][str(row.get("metric"))] = row
    return list(found.values())


def _by_metric(rows: Sequence[Row]) -> list[Column]:
    metrics = dict.fromkeys(str(row.get("metric")) for row in rows)
    telling = [m for m in metrics if m in TELLING or m.startswith("rollouts")]
    shown = [_metric_column(metric) for metric in telling]
    rest = [_extra(_metric_column(metric)) for metric in metrics if metric not in telling]
    seeds = Column("seeds", lambda record: number(max(_seeds(record), default=0)))
    return [Column("method", _method, None), *shown, seeds, *rest]


def _seeds(record: Row) -> Iterable[int]:
    return (int(row.get("n") or 0) for row in record["metrics"].values())


def _metric_column(metric: str) -> Column:
    def text(record: Row) -> str:
        row = record["metrics"].get(metric) or {}
        if not row.get("n"):
            return "never" if metric.startswith("rollouts") else "–"
        few = max(_seeds(record))
        part = f" ({row['n']} of {few} seeds)" if row["n"] < few else ""
        return _bracketed(row.get("iqm"), row.get("iqm_low"), row.get("iqm_high")) + part

    return Column(TELLING.get(metric, metric), text)

"""How numbers and columns read, in HTML and in Markdown alike."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from tpo.reports.labels import readable as readable
from tpo.stats.repetition import AGREES, HIGHER, LOWER, NOISY

Row = Mapping[str, Any]


class Column(NamedTuple):
    """A column of a study's table: its heading, how a row reads in it, and whether it is a number."""

    title: str
    text: Callable[[Row], str]
    kind: str | None = "number"


STATISTICS = {
    "ours": "ours",
    "mean": "mean",
    "median": "median",
    "iqm": "IQM [95%]",
    "best": "best",
    "last100": "last 100",
}
"""Columns of numbers and their headings; a column that no row has is left out."""

MEANINGS = {
    "ours": "our value of the published metric; in brackets, where the value of a repetition with as many "
    "other seeds falls, so wide that two equal experiments differ in at most 6% of simulations",
    "verdict": "on the published number, as it was rounded. It *agrees* if the whole bracket is within 3 "
    "points of it (steps: within 25%), even where the bracket leaves it out. Else *ours is lower* or *higher* "
    "if the bracket leaves it out. Else it is *too noisy*. These margins were fixed beforehand",
    "mean, median, IQM": "of the error in percent, over seeds at the last episode; IQM is the interquartile "
    "mean, with its 95% bootstrap interval",
    "best": "the lowest point of the mean curve",
    "last 100": "the mean over the last 100 episodes (the last tenth of shorter runs)",
    "below 1% at the end": "seeds whose error at the last episode is below the threshold, 1% unless the "
    "heading says another. A seed that reached it may relapse",
    "failed": "seeds whose error at the last episode is above 90%, in studies with such seeds",
    "steps": "the first episode at which the mean over seeds is below the threshold, as the paper counts",
    "reached 1%": "seeds whose own error is below the threshold at some episode",
    "median steps": "the first episode at which the median seed is below the threshold, with its 95% interval "
    "(ordered values); *never* if at most half of the seeds get there within the run",
}
"""What the columns of a table of learning curves mean."""


def meanings(rows: Sequence[Row]) -> Mapping[str, str]:
    """What the columns mean if the table is about learning curves; else nothing."""
    return MEANINGS if any(row.get("last100") is not None for row in rows) else {}


def number(x: object, digits: int = 3) -> str:
    """Three significant digits: 0.0123, 12.3, 1,230; a dash for a missing number."""
    if x is None or isinstance(x, str):
        return x or "–"
    if isinstance(x, bool) or not isinstance(x, (int, float)):
        return str(x)
    if not math.isfinite(x):
        return "–"
    if isinstance(x, int) or abs(x) >= 10**digits:
        return f"{x:,.0f}"
    return f"{x:.{digits}g}" if x == 0 or abs(x) >= 1e-4 else f"{x:.1e}"


def duration(seconds: float) -> str:
    """`45 s`, `12 min`, `3.4 h`"""
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def value_text(value: object) -> str:
    """A setting as text: lists with commas, mappings as `key value` pairs."""
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {value_text(x)}" for key, x in value.items())
    if isinstance(value, (list, tuple)):
        return ", ".join(map(value_text, value))
    return number(value, 6) if isinstance(value, float) else str(value)


SAID = {
    AGREES: "agree",
    LOWER: "where ours is lower",
    HIGHER: "where ours is higher",
    NOISY: "too noisy to tell",
}
"""How a count of verdicts on published numbers goes on."""


def tally(rows: Iterable[Row], others: str) -> str:
    """`40 in all: 3 agree, 37 too noisy to tell`; others: what is said of numbers without a verdict."""
    count = Counter(row.get("agreement") for row in rows if row.get("published") is not None)
    words = [f"{count[verdict]} {said}" for verdict, said in SAID.items() if count[verdict]]
    if left := count.total() - sum(count[verdict] for verdict in SAID):
        words.append(f"{left} {others}")
    return f"{count.total()} in all: {', '.join(words)}"


def settings(study: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a study, with its episodes named as in its figures and sentences, such as steps."""
    unit = str((study.get("x") or {}).get("label") or "")
    named = {"episodes": "steps"} if unit == "step" else {}
    return {named.get(key, key): value for key, value in (study.get("settings") or {}).items()}


def share_done(study: Mapping[str, Any]) -> tuple[int, int]:
    """Finished cells and all cells."""
    progress = study.get("progress") or {}
    return int(progress.get("cells_done") or 0), int(progress.get("cells") or 0)


def columns(rows: Sequence[Row]) -> list[Column]:
    """The columns that some row fills: coordinates, method, the published number, then ours."""
    found = [_coordinate(key) for key in _keys(row.get("coords") or {} for row in rows)]
    found.append(Column("method", lambda row: readable(row.get("method")), None))
    if any(row.get("metric") for row in rows):
        found.append(Column("metric", lambda row: str(row.get("metric") or ""), None))
    found.append(Column("published", _published, "number published"))
    for key, title in STATISTICS.items():
        if key != "mean" or any(row.get("mean") != row.get("ours") for row in rows):
            found += _plain(rows, key, title)
    if any(row.get("agreement") for row in rows):
        found.insert(_place(found, "ours") + 1, Column("verdict", _verdict, None))
    if any(row.get("solved") is not None for row in rows):
        found.append(Column(at_end(rows), lambda row: _count(row, "solved")))
    elif any(row.get("n") for row in rows):
        found.append(Column("seeds", lambda row: number(row.get("n"))))
    if any(row.get("failed") is not None for row in rows):
        found.append(Column("failed", lambda row: _count(row, "failed")))
    found += _plain(rows, "steps_to_threshold", "steps")
    if any(row.get("reached") for row in rows):
        found.append(Column(reached(rows), lambda row: _count(row, "reached")))
        found.append(Column("median steps", _median_steps))
    if len({row.get("device") for row in rows if row.get("device")}) > 1:
        found.append(Column("device", lambda row: str(row.get("device") or ""), None))
    if any(row.get("done") is False for row in rows):
        found.append(Column("state", _state, None))
    return found


def reached(rows: Sequence[Row]) -> str:
    """The heading of the seeds below the threshold at some episode: `reached 1%`."""
    return f"reached {_threshold(rows)}"


def at_end(rows: Sequence[Row]) -> str:
    """The heading of the seeds below the threshold at the last episode: `below 1% at the end`."""
    return f"below {_threshold(rows)} at the end"


def _threshold(rows: Sequence[Row]) -> str:
    """The threshold of these rows; that of the paper where they do not say."""
    known = {row["threshold"] for row in rows if row.get("threshold") is not None}
    return " or ".join(f"{number(one)}%" for one in sorted(known)) or "1%"


def _place(found: Sequence[Column], title: str) -> int:
    """The index of that column, else of the last one."""
    titles = [column.title for column in found]
    return titles.index(title) if title in titles else len(titles) - 1


def _verdict(row: Row) -> str:
    return str(row.get("agreement") or "")


def _keys(mappings: Iterable[Mapping[str, Any]]) -> list[str]:
    return list(dict.fromkeys(key for mapping in mappings for key in mapping))


def _coordinate(key: str) -> Column:
    def text(row: Row) -> str:
        value = (row.get("coords") or {}).get(key)
        return "" if value is None else value_text(value)

    return Column(key, text, None)


def _published(row: Row) -> str:
    return number(row.get("published"))


def _state(row: Row) -> str:
    return "unfinished" if row.get("done") is False else "finished"


def _count(row: Row, key: str) -> str:
    return "–" if row.get("n") is None else f"{number(row.get(key))} of {number(row.get('n'))}"


def _median_steps(row: Row) -> str:
    return _interval(row, "steps_median", ("steps_low", "steps_high"))


def _plain(rows: Sequence[Row], key: str, title: str) -> list[Column]:
    """A column for that key if any row has it, with the interval for those that have one."""
    if all(row.get(key) is None for row in rows):
        return []
    ends = {"iqm": ("iqm_low", "iqm_high"), "ours": ("low", "high")}.get(key)
    return [Column(title, lambda row: _interval(row, key, ends))]


def _interval(row: Row, key: str, ends: tuple[str, str] | None) -> str:
    """The number, with its interval where it has one."""
    low, high = (row.get(end) for end in ends or ("", ""))
    if low is None or high is None:
        return number(row.get(key))
    return f"{number(row.get(key))} [{number(low)}, {number(high)}]"


FAILURES = "Typical seed and complete failures"
"""The title of the table of failures."""


def _of(key: str) -> Callable[[Row], str]:
    return lambda row: number(row[key])


def _effect(row: Row) -> str:
    if row.get("effect") is None:
        return "–"
    return f"{row['effect']:.2f} [{row['low']:.2f}, {row['high']:.2f}]"


RIVAL_COLUMNS = (
    Column("against", lambda row: readable(row["rival"]), None),
    Column("hold", lambda row: f"{row['hold']} of {row['settings']}"),
    Column("effect [95%]", _effect),
    Column("p", lambda row: "–" if row.get("p") is None else f"{row['p']:.1g}"),
    Column(
        "80% power from", lambda row: "–" if row.get("power") is None else f"{row['power']:.2f}"
    ),
)
"""The columns of "against" of a verdict."""


FAILURE_COLUMNS = (
    Column("method", lambda row: readable(row["method"]), None),
    *(Column(title, _of(key)) for title, key in (
        ("runs", "runs"), ("failed", "failed"), ("Fisher's p", "p"), ("below threshold", "solved"),
        ("lower median", "lower"),
    )),
)  # fmt: skip
"""The columns of `tpo.stats.failures.typical_and_failed`."""


def failures_meaning(rows: Sequence[Row]) -> str:
    """What the table of failures shows."""
    first = readable(rows[0]["method"])
    return (
        "Over all settings, at the last episode; a run that two settings share counts once. Failed: an error "
        f"above 90%. Fisher's p: of as many failures as {first} has, corrected for the number of methods "
        "(Holm). Below threshold: an error that counts as learned. Lower median: in how many settings "
        f"the median seed ends below that of {first}."
    )

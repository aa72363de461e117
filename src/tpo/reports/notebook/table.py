"""The rows of results as a value: text in a terminal, HTML in a notebook, CSV, pandas where it is installed."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tpo.reports.html.elements import element
from tpo.reports.labels import readable
from tpo.reports.wording import at_end, reached

HEADINGS = {
    "published": "published", "ours": "ours", "low": "low", "high": "high", "last100": "final error (%)",
    "last100_low": "from", "last100_high": "to", "solved": "", "failed": "failed",
    "n": "seeds", "steps_to_threshold": "steps of the mean", "steps_median": "median seed's steps",
    "reached": "",
    "mean": "last episode (%)", "median": "median (%)", "iqm": "IQM (%)", "best": "best (%)",
}  # fmt: skip
"""The columns that are shown, in this order after the settings and the method, where a row has them.

The final error and its interval are those of the report: over the last episodes. The median and IQM are of the
last episode.
"""
OF_MODELS = {"mean": "mean", "median": "median", "iqm": "IQM"}
"""Headings of comparisons of language models, whose metrics have units of their own."""
OURS = ("ours", "low", "high")
"""Shown beside published numbers only."""


@dataclass(frozen=True)
class ResultTable:
    """Rows as dicts, all with the same keys."""

    rows: Sequence[Mapping[str, Any]]

    @property
    def columns(self) -> list[str]:
        """The keys of the rows."""
        return list(self.rows[0]) if self.rows else []

    def to_pandas(self) -> Any:
        """A pandas DataFrame of the rows."""
        try:
            import pandas as pd
        except ModuleNotFoundError:
            raise ModuleNotFoundError(
                "to_pandas needs pandas: pip install pandas; .rows and .csv() need nothing",
                name="pandas",
            ) from None
        return pd.DataFrame(list(self.rows), columns=self.columns)

    def csv(self) -> str:
        """A header and a line per row; a missing value is empty."""
        text = io.StringIO()
        writer = csv.DictWriter(text, self.columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows(self.rows)
        return text.getvalue()

    def _repr_html_(self) -> str:
        head, *body = self._shown()
        left = {"style": "text-align: left"}
        top = element("tr", *(element("th", name, **left) for name in head))
        lines = [element("tr", *(element("td", x, **left) for x in line)) for line in body]
        return element("table", element("thead", top), element("tbody", *lines))

    def __str__(self) -> str:
        lines = self._shown()
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        return "\n".join(
            "  ".join(x.ljust(w) for x, w in zip(line, widths, strict=True)).rstrip()
            for line in lines
        )

    __repr__ = __str__

    def _shown(self) -> list[list[str]]:
        """The heading and the rows as text, without columns that are empty or the same everywhere."""
        order = {name: i for i, name in enumerate(HEADINGS, 1)}
        shown = filter(self._is_shown, self.columns)
        kept = sorted(shown, key=lambda name: order.get(name, 0))
        curves = any(row.get("last100") is not None for row in self.rows)
        heads = HEADINGS | {"solved": at_end(self.rows), "reached": reached(self.rows)}
        heads |= {} if curves else OF_MODELS
        found = [[heads.get(name, name) for name in kept]]
        for row in self.rows:
            found.append([readable(row[k]) if k == "method" else _text(row[k]) for k in kept])
        return found

    def _is_shown(self, name: str) -> bool:
        values = {str(row[name]) for row in self.rows if row[name] is not None}
        if name in ("study", "metric"):
            return len(values) > 1
        if name in OURS and not any(row.get("published") for row in self.rows):
            return False
        return bool(values) and name not in HIDDEN


HIDDEN = (
    "agreement", "iqm_low", "iqm_high", "steps_low", "steps_high", "threshold", "device", "done", "values",
)  # fmt: skip
"""Columns of the rows that are not shown."""


def flat_rows(studies: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Every row of every table: the study, its coordinates, the columns; None where a row has no value."""
    found = [
        {"study": one["name"], **row.get("coords", {}), **{k: v for k, v in row.items() if k != "coords"}}
        for one in studies
        for row in one["table"]["rows"]
    ]  # fmt: skip
    axes = dict.fromkeys(
        k for one in studies for row in one["table"]["rows"] for k in row.get("coords", {})
    )
    keys = dict.fromkeys(["study", *axes, *(key for row in found for key in row)])
    return [{key: row.get(key) for key in keys} for row in found]


def _text(value: Any) -> str:
    if value is None:
        return "–"
    return f"{value:.3g}" if isinstance(value, float) else str(value)

"""One study as HTML: its question, verdicts, figure, table and settings; and the overview of all studies."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from tpo.reports.html.elements import Html, element, joined
from tpo.reports.wording import Column, columns, duration, meanings, share_done, value_text

BADGES = {"holds": ("✓", "yes"), "does not hold": ("✗", "no"), "undecided": ("?", "open")}
"""The sign of a verdict and its CSS class."""


def overview(studies: Sequence[Mapping[str, Any]]) -> Html:
    """How many runs are finished and which claims hold, a row per study."""
    tally = Counter(v["status"] for study in studies for v in study.get("verdicts") or ())
    facts = [
        _fact(str(len(studies)), "study" if len(studies) == 1 else "studies"),
        *(
            _fact(str(tally[status]), f"claims: {status}", kind)
            for status, (_, kind) in BADGES.items()
        ),
    ]
    rows = [_overview_row(study) for study in studies]
    names = ("study", "source", "finished runs", "claims")
    heads = [element("th", text, scope="col") for text in names]
    table = element(
        "table",
        element("thead", element("tr", *heads)),
        element("tbody", *rows),
        class_="overview",
    )
    return element(
        "section",
        element("h2", "Overview"),
        element("div", *facts, class_="facts"),
        _scrolling(table, "Overview of the studies"),
        class_="study",
        id="overview",
    )


def _fact(number: str, text: str, kind: str = "") -> Html:
    return element(
        "div", element("b", number), element("span", text), class_=f"fact {kind}".strip()
    )


def _overview_row(study: Mapping[str, Any]) -> Html:
    badges = [_badge(v["status"], short=True) for v in study.get("verdicts") or ()]
    return element(
        "tr",
        element(
            "th", element("a", study.get("title"), href=f"#study-{study['name']}"), scope="row"
        ),
        element("td", study.get("source")),
        element("td", _progress(study)),
        element("td", *badges) if badges else element("td", "–"),
    )


def study_section(study: Mapping[str, Any], index: int) -> Html:
    """One study; figure.js draws its figure into the element with this index."""
    return element(
        "section",
        element(
            "header",
            element("h2", study.get("title")),
            element("p", _subtitle(study), class_="source"),
        ),
        element("p", study["about"], class_="about") if study.get("about") else None,
        _unfinished(study),
        _verdicts(study.get("verdicts") or ()),
        element("div", class_="figure", data_figure=index),
        _table(study),
        _details(study),
        _command(study),
        class_="study",
        id=f"study-{study['name']}",
    )


def _subtitle(study: Mapping[str, Any]) -> str:
    parts = [study.get("source"), study.get("scale") and f"scale: {study['scale']}"]
    return " · ".join(str(part) for part in parts if part)


def _progress(study: Mapping[str, Any]) -> Html:
    done, cells = share_done(study)
    bar = element("progress", value=done, max=max(cells, 1), aria_label=f"{done} of {cells} runs")
    return element("span", bar, f" {done}/{cells}", class_="progress")


def _unfinished(study: Mapping[str, Any]) -> Html | None:
    done, cells = share_done(study)
    if done >= cells:
        return None
    words = f" runs are finished. The same command continues: {study.get('command', '')}"
    return element("p", _progress(study), words, class_="note")


def _verdicts(verdicts: Sequence[Mapping[str, Any]]) -> Html | None:
    if not verdicts:
        return None
    items = [
        element(
            "li",
            _badge(v["status"]),
            element("div", element("strong", v["claim"]), *_reasons(v.get("detail") or "")),
        )
        for v in verdicts
    ]
    return element("ul", *items, class_="verdicts", aria_label="Verdicts")


def _reasons(detail: str) -> list[Html]:
    """A paragraph per reason; semicolons separate them in the text."""
    return [element("p", reason) for reason in detail.split("; ")]


def _badge(status: str, short: bool = False) -> Html:
    sign, kind = BADGES.get(status, ("?", "open"))
    if short:
        return element(
            "span", sign, class_=f"badge {kind}", title=status, aria_label=status, role="img"
        )
    return element("span", f"{sign} {status}", class_=f"badge {kind}")


def _table(study: Mapping[str, Any]) -> Html | None:
    rows = (study.get("table") or {}).get("rows") or []
    if not rows:
        return None
    shown = columns(rows)
    head = element("tr", *(element("th", c.title, scope="col", class_=c.kind) for c in shown))
    styles = study.get("styles", {})
    body = [element("tr", *(_cell(row, c, styles) for c in shown)) for row in rows]
    table = element("table", element("thead", head), element("tbody", *body), class_="numbers")
    scrolling = _scrolling(table, f"Numbers of {study.get('title')}")
    return element("div", scrolling, _legend(meanings(rows)))


def _legend(known: Mapping[str, str]) -> Html | None:
    """What the columns mean."""
    if not known:
        return None
    items = [element("li", element("b", column), f": {words}") for column, words in known.items()]
    return element("ul", *items, class_="meanings")


def _cell(row: Mapping[str, Any], column: Column, styles: Mapping[str, str]) -> Html:
    text = column.text(row)
    if column.title == "method":
        swatch = element("span", class_=f"swatch {styles[text]}") if text in styles else None
        return element("th", swatch, text, scope="row")
    return element("td", text, class_=column.kind)


def _scrolling(table: Html, label: str) -> Html:
    return element("div", table, class_="scroll", tabindex=0, role="region", aria_label=label)


def _details(study: Mapping[str, Any]) -> Html:
    cost = study.get("cost") or {}
    seconds, device = cost.get("seconds"), cost.get("device")
    spent = [] if seconds is None else [duration(seconds)]
    spent += [] if device is None else [str(device)]
    summary = "Settings and provenance" + (f" · cost: {' on '.join(spent)}" if spent else "")
    return element(
        "details",
        element("summary", summary),
        element(
            "div",
            _facts("Settings", study.get("settings") or {}),
            _facts("Provenance", study.get("provenance") or {}),
            class_="columns",
        ),
    )


def _facts(title: str, facts: Mapping[str, Any]) -> Html | None:
    if not facts:
        return None
    pairs = [
        joined(element("dt", str(key).replace("_", " ")), element("dd", value_text(value)))
        for key, value in facts.items()
    ]
    return element("div", element("h3", title), element("dl", *pairs))


def _command(study: Mapping[str, Any]) -> Html | None:
    if not study.get("command"):
        return None
    return element("pre", element("code", study["command"]), class_="command")

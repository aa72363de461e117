"""One study as HTML: its question, verdicts, figure, table and settings; and the overview of all studies."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from tpo.reports.html.elements import Html, element, joined
from tpo.reports.html.tables import READING, by_rival, failed, numbers, scrolling
from tpo.reports.story import question, sentences
from tpo.reports.wording import duration, settings, share_done, value_text

BADGES = {"holds": ("✓", "yes"), "does not hold": ("✗", "no"), "undecided": ("?", "open")}
"""The sign of a verdict and its CSS class."""
ABOUT = (
    "Target policy optimization (TPO) turns the scores of a group of samples into a target distribution, then "
    "fits the policy to it by cross-entropy."
)
"""What TPO is, as the README says it."""
TALLY = {
    "holds": "claims hold",
    "does not hold": "claims do not hold",
    "undecided": "claims undecided",
}
MANY_CLAIMS = 4
"""More claims than this are listed on demand."""
MANY_REASONS = 8
"""More comparisons of one claim than this are counted."""


def overview(studies: Sequence[Mapping[str, Any]]) -> Html:
    """What TPO is and what was asked; then every study in a row: its question, its answer, its claims."""
    tally = Counter(v["status"] for study in studies for v in study.get("verdicts") or ())
    facts = [
        _fact(str(len(studies)), "studies"),
        *(_fact(str(tally[status]), TALLY[status], kind) for status, (_, kind) in BADGES.items()),
    ]
    rows = [_overview_row(study) for study in studies]
    heads = [
        element("th", text, scope="col") for text in ("study", "what was asked and found", "claims")
    ]
    table = element(
        "table",
        element("thead", element("tr", *heads)),
        element("tbody", *rows),
        class_="overview",
    )
    return element(
        "section",
        element("h2", "Overview"),
        element("p", ABOUT, class_="about"),
        element("p", _asked(studies), class_="about"),
        element("div", *facts, class_="facts"),
        scrolling(table, "Overview of the studies"),
        class_="study",
        id="overview",
    )


def _asked(studies: Sequence[Mapping[str, Any]]) -> str:
    """What was asked, over all studies."""
    tested = sum(bool(study.get("verdicts")) for study in studies)
    return (
        "Asked here: how do objectives compare on the same task with the same seeds? Each study has a question "
        f"of its own; {tested} of {len(studies)} test claims, each with a verdict."
    )


def _fact(number: str, text: str, kind: str = "") -> Html:
    return element(
        "div", element("b", number), element("span", text), class_=f"fact {kind}".strip()
    )


def _overview_row(study: Mapping[str, Any]) -> Html:
    done, cells = share_done(study)
    counted = Counter(v["status"] for v in study.get("verdicts") or ())
    badges: list[object] = [_badge(one, counted[one]) for one in BADGES if counted[one]]
    link = element("a", study.get("title"), href=f"#{study['anchor']}")
    source = element("small", study.get("source"))
    words, _ = question(study)
    asked = joined(element("em", words), " ") if words else None
    found = (study.get("answer") or ["see the figures" if done else "nothing has finished yet"])[0]
    return element(
        "tr",
        element("th", link, source, scope="row"),
        element("td", asked, found, _progress(study) if done < cells else None, data_label="found"),
        element("td", *(badges or ["–"]), data_label="claims"),
    )


def study_section(study: Mapping[str, Any], index: int) -> Html:
    """One study: question, answer, claims and figure; numbers and settings on demand.

    figure.js draws the figure into the element with this index.
    """
    return element(
        "section",
        element(
            "header",
            element("h2", study.get("title")),
            element("p", _subtitle(study), class_="source"),
        ),
        _question(study),
        _unfinished(study),
        _answer(study.get("answer") or ()),
        _verdicts(study.get("verdicts") or ()),
        element("div", class_="figure", data_figure=index),
        failed(study),
        numbers(study),
        _details(study),
        _command(study),
        class_="study",
        id=study["anchor"],
    )


def _subtitle(study: Mapping[str, Any]) -> str:
    shared = study.get("shared")
    parts = [
        study.get("source"),
        study.get("scale") and f"scale: {study['scale']}",
        shared and f"all methods: {', '.join(shared)}",
    ]
    return " · ".join(str(part) for part in parts if part)


def _question(study: Mapping[str, Any]) -> Html | None:
    """The question, or without one what was run."""
    asked, rest = question(study)
    text = asked or rest
    if not text:
        return None
    heading = "Question" if asked else "What was run"
    return element("div", element("h3", heading, class_="part"), element("p", text, class_="about"))


def _answer(found: Sequence[str]) -> Html | None:
    if not found:
        return None
    first, *others = found
    return element(
        "div",
        element("h3", "Answer", class_="part"),
        element("p", first, class_="answer"),
        *(element("p", sentence, class_="about") for sentence in others),
    )


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
    """Claims with their reasons on demand; many claims are one line."""
    if not verdicts:
        return None
    items = [_verdict(found) for found in verdicts]
    listed = element("ul", *items, class_="verdicts", aria_label="Claims")
    if len(verdicts) <= MANY_CLAIMS:
        return listed
    tally = Counter(found["status"] for found in verdicts)
    counted = [_badge(status, tally[status]) for status in BADGES if tally[status]]
    summary = element("summary", f"{len(verdicts)} claims ", *counted)
    return element("details", summary, listed)


def _verdict(found: Mapping[str, Any]) -> Html:
    head = joined(_badge(found["status"]), element("strong", found["claim"]))
    reasons = [*by_rival(found), *_reasons(found)]
    if not reasons:
        return element("li", element("p", head))
    return element("li", element("details", element("summary", head), *reasons))


def _reasons(found: Mapping[str, Any]) -> list[Html]:
    """A paragraph per comparison that decides; the detail of a claim about one."""
    reasons = list(found.get("reasons") or filter(None, [found.get("detail")]))
    more = [f"and {len(reasons) - MANY_REASONS} more"] if len(reasons) > MANY_REASONS else []
    return [element("p", reason) for reason in reasons[:MANY_REASONS] + more]


def _badge(status: str, count: int | None = None) -> Html:
    """The sign of a verdict, with its word or with how many there are."""
    sign, kind = BADGES.get(status, ("?", "open"))
    if count is None:
        return element("span", f"{sign} {status}", class_=f"badge {kind}")
    words = f"{count} {status}"
    return element(
        "span", f"{sign} {count}", class_=f"badge {kind}", title=words, aria_label=words, role="img"
    )


def reading() -> Html:
    """What the words of the report mean, once for all studies."""
    pairs = [joined(element("dt", word), element("dd", words)) for word, words in READING.items()]
    return element(
        "section",
        element("h2", "How to read this report"),
        element("dl", *pairs, class_="reading"),
        class_="study",
        id="reading",
    )


def _details(study: Mapping[str, Any]) -> Html:
    cost = study.get("cost") or {}
    seconds, device = cost.get("seconds"), cost.get("device")
    spent = [] if seconds is None else [duration(seconds)]
    spent += [] if device is None else [str(device)]
    summary = "Set-up, settings and provenance" + (
        f" · cost: {' on '.join(spent)}" if spent else ""
    )
    return element(
        "details",
        element("summary", summary),
        _set_up(study),
        element(
            "div",
            _facts("Settings", settings(study)),
            _facts("Provenance", study.get("provenance") or {}),
            class_="columns",
        ),
    )


def _set_up(study: Mapping[str, Any]) -> Html | None:
    """How the question is asked; of a study without one, the sentences that other studies have as well."""
    asked, rest = question(study)
    shared = [s for s in sentences(study.get("about") or "") if s in study.get("common", ())]
    text = rest if asked else " ".join(shared)
    if not text:
        return None
    return element("div", element("h3", "Set-up"), element("p", text, class_="about"))


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

"""The page around the studies: one file that loads nothing, and a content security policy that forbids it."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from importlib.resources import files
from string import Template
from typing import Any

from tpo.reports.html.elements import Html, element, joined
from tpo.reports.html.sections import overview, reading, study_section
from tpo.reports.page_data import prepared, script_json
from tpo.reports.story import common_sentences, sentences
from tpo.version import __version__

SCRIPTS = (
    "dom",
    "maths",
    "scales",
    "legend",
    "labels",
    "chart",
    "shapes",
    "enlarge",
    "figure",
    "sliders",
    "candidates",
    "pictures",
    "formula",
    "play",
    "guide",
    "controls",
    "snippet",
    "link",
    "playground",
    "embed",
    "contents",
    "page",
)
"""In the order of their dependencies."""

STYLES = ("style", "story", "playground")

NOTHING_YET = "tpo run terminal --scale quick --out DIR"


def report(studies: Sequence[Mapping[str, Any]]) -> str:
    """The report of these studies, and the playground."""
    ready = _together([prepared(study) for study in studies])
    several = len(ready) > 1
    body = joined(
        overview(ready) if several else None,
        None if ready else _nothing_yet(),
        *(study_section(study, i) for i, study in enumerate(ready)),
        _playground(),
        reading() if ready else None,
    )
    links = [("overview", "Overview")] if several else []
    links += [(study["anchor"], str(study.get("title"))) for study in ready]
    links += [PLAYGROUND_LINK, READING_LINK] if ready else [PLAYGROUND_LINK]
    return _page("Target policy optimization: results", body, links, ready)


def playground() -> str:
    """The playground alone."""
    return _page("Target policy optimization: playground", _playground(), [], [])


def _together(studies: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The studies with an anchor each, and with the sentences that several of them share."""
    common = common_sentences(str(study.get("about") or "") for study in studies)
    taken: set[str] = set()
    for study in studies:
        name = f"study-{study['name']}"
        anchors = (name, *(f"{name}-{i}" for i in range(2, len(studies) + 1)))
        study["anchor"] = next(anchor for anchor in anchors if anchor not in taken)
        study["common"] = [s for s in sentences(str(study.get("about") or "")) if s in common]
        taken.add(study["anchor"])
    return studies


PLAYGROUND_LINK = ("playground", "Playground")
READING_LINK = ("reading", "How to read this report")


def presets() -> list[dict[str, Any]]:
    """The playground's examples: the `name` in its address `#preset=name`, what each shows, and its numbers."""
    found: list[dict[str, Any]] = json.loads(_asset("presets.json"))
    return found


def _playground() -> Html:
    return element(
        "section",
        element("h2", "Playground"),
        element(
            "p",
            "One prompt with K candidate answers, and a policy that is a softmax over them. Choose an "
            "example, read what to look at, press Play; then change any number. The formulas are those "
            "of the library.",
            class_="about",
        ),
        element("div", id="playground-body"),
        id="playground",
        class_="study",
    )


def _nothing_yet() -> Html:
    return element(
        "section",
        element("h2", "Nothing has been run yet"),
        element(
            "p", "This folder holds no results of a study. Run one, then write the report again:"
        ),
        element("pre", element("code", NOTHING_YET), class_="command"),
        element(
            "p",
            "`tpo studies` lists all studies and their cost. The playground below needs no runs.",
        ),
        class_="study",
    )


def _page(
    title: str, body: Html, links: Sequence[tuple[str, str]], studies: list[dict[str, Any]]
) -> str:
    style = "\n".join(_asset(f"{name}.css") for name in STYLES)
    script = "\n".join(_asset(f"{name}.js") for name in SCRIPTS)
    return Template(_asset("page.html")).substitute(
        policy=_policy(style, script),
        title=joined(title),
        style=style,
        shape="many" if len(studies) > 1 else "single",
        menu=element("button", "Contents", **MENU) if links else "",
        contents=_contents(links) if links else "",
        body=body,
        version=joined(__version__),
        data=script_json({"studies": [_drawn(study) for study in studies], "presets": presets()}),
        script=script,
    )


MENU = {"type": "button", "id": "contents-button", "popovertarget": "contents"}
DRAWN = ("name", "x", "y", "panels", "profiles", "highlight")


def _contents(links: Sequence[tuple[str, str]]) -> Html:
    """Links to every part: beside the page where it is wide and there are several studies, else a menu."""
    listed = [element("li", element("a", text, href=f"#{anchor}")) for anchor, text in links]
    return element("nav", element("ul", *listed), id="contents", popover="", aria_label="Contents")


def _drawn(study: Mapping[str, Any]) -> dict[str, Any]:
    """What figure.js needs; the rest of a study is in the page as HTML."""
    return {key: study.get(key) for key in DRAWN}


def _policy(style: str, script: str) -> str:
    """Only this style and this script may run, and nothing may be loaded."""
    return (
        f"default-src 'none'; style-src 'sha256-{_sha256(style)}'; "
        f"script-src 'sha256-{_sha256(script)}'; base-uri 'none'; form-action 'none'"
    )


def _sha256(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _asset(name: str) -> str:
    return (files("tpo.reports.html") / "assets" / name).read_text(encoding="utf-8")

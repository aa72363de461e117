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
from tpo.reports.html.sections import overview, study_section
from tpo.reports.page_data import prepared, script_json
from tpo.version import __version__

SCRIPTS = (
    "dom",
    "maths",
    "scales",
    "chart",
    "shapes",
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
    "page",
)
"""In the order of their dependencies."""

STYLES = ("style", "playground")

NOTHING_YET = "tpo run terminal --scale quick --out DIR"


def report(studies: Sequence[Mapping[str, Any]]) -> str:
    """The report of these studies, and the playground."""
    ready = [prepared(study) for study in studies]
    body = joined(
        overview(ready) if ready else _nothing_yet(),
        *(study_section(study, i) for i, study in enumerate(ready)),
        _playground(),
    )
    links = [(f"study-{study['name']}", str(study["name"]).replace("_", " ")) for study in ready]
    return _page("Target policy optimization: results", body, [*links, PLAYGROUND_LINK], ready)


def playground() -> str:
    """The playground alone."""
    return _page("Target policy optimization: playground", _playground(), [PLAYGROUND_LINK], [])


PLAYGROUND_LINK = ("playground", "Playground")


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
            "One prompt with K candidate answers, and a policy that is a softmax over them. Choose the "
            "probabilities and scores of the candidates and an objective, and see which candidates the "
            "objective makes more or less probable. The formulas are those of the library.",
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
    navigation = joined(*(element("a", text, href=f"#{anchor}") for anchor, text in links))
    return Template(_asset("page.html")).substitute(
        policy=_policy(style, script),
        title=joined(title),
        style=style,
        links=navigation,
        body=body,
        version=joined(__version__),
        data=script_json({"studies": [_drawn(study) for study in studies], "presets": presets()}),
        script=script,
    )


def _drawn(study: Mapping[str, Any]) -> dict[str, Any]:
    """What figure.js needs; the rest of a study is in the page as HTML."""
    return {key: study.get(key) for key in ("name", "x", "y", "panels", "profiles")}


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

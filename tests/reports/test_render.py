"""The files of a report, without a browser: their content, escaping and error messages."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from support import samples
from support.report_command import report_command
from tpo import reports
from tpo.reports import styles
from tpo.reports.html.elements import Html, element
from tpo.reports.page_data import plain, script_json
from tpo.reports.wording import duration, number
from tpo.storage.store import Store


class Outline(HTMLParser):
    """Tags, attributes and text as a browser's parser meets them."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.texts: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def page_of(tmp_path: Path, studies: list[dict[str, Any]]) -> str:
    return reports.write_studies(studies, tmp_path / "report.html").read_text(encoding="utf-8")


def test_an_element_escapes_text_and_attributes_but_not_markup() -> None:
    made = element("p", "a < b", element("b", '"&"'), None, title='"x"', data_k=3, hidden=None)
    assert made == '<p title="&quot;x&quot;" data-k="3">a &lt; b<b>&quot;&amp;&quot;</b></p>'
    assert isinstance(made, Html)


def test_hostile_text_stays_text(tmp_path: Path) -> None:
    outline = Outline(page_of(tmp_path, [samples.hostile()]))
    assert "img" not in outline.tags
    assert not any(name.startswith("on") for name, _ in outline.attributes)
    assert sum(samples.EVIL in text for text in outline.texts) >= 10
    assert outline.tags.count("script") == 2
    assert outline.tags.count("style") == 1


def test_the_data_block_reads_back_as_json_and_cannot_be_broken_out_of(tmp_path: Path) -> None:
    page = page_of(tmp_path, [samples.hostile()])
    (block,) = re.findall(r'<script type="application/json"[^>]*>(.*?)</script>', page, re.DOTALL)
    assert "<" not in block
    first = json.loads(block)["studies"][0]["panels"][0]["series"][0]
    assert first["label"] == samples.EVIL
    assert first["mean"][:2] == [None, None]
    assert json.loads(script_json("<!--\u2028&")) == "<!--\u2028&"


def test_the_policy_allows_this_style_and_script_and_nothing_else(tmp_path: Path) -> None:
    page = page_of(tmp_path, samples.studies())
    (policy,) = re.findall(r'Content-Security-Policy" content="([^"]*)"', page)
    assert policy.startswith("default-src 'none';")
    for kind, pattern in (
        ("style", r"<style>(.*?)</style>"),
        ("script", r"<script>(.*?)</script>"),
    ):
        (text,) = re.findall(pattern, page, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{kind}-src 'sha256-{digest}'" in policy
    assert "unsafe" not in policy
    assert not re.search(r"\b(src|href)=\"(?!#)", page)


def test_a_study_shows_its_numbers_beside_the_published_ones(tmp_path: Path) -> None:
    texts = Outline(page_of(tmp_path, samples.studies())).texts
    for expected in ("6.9", "1.2 [0.3, 4.5]", "5 of 6", "812", "Table 3, Fig. 8 · scale: quick"):
        assert expected in texts
    assert [t for t in texts if t in ("✓ holds", "? undecided", "✗ does not hold")] == [
        "✓ holds",
        "? undecided",
        "✗ does not hold",
    ]
    assert "Set-up, settings and provenance · cost: 13 min on cpu" in texts
    assert any("12/20" in text for text in texts)


def test_markdown_has_the_same_table_and_no_markup_of_the_store(tmp_path: Path) -> None:
    page_of(tmp_path, [samples.terminal(), samples.hostile()])
    text = (tmp_path / "report.md").read_text(encoding="utf-8")
    assert "| 7 | prompt | TPO | final error % | 6.9 | 2.35 | 0.41 | 1.2 \\[0.3, 4.5\\] |" in text
    assert "- ✗ **PPO solves H = 8**: does not hold. 31% at the end (n = 6)" in text
    outside_code = "\n".join(line for line in text.splitlines() if not line.startswith("    "))
    assert "<img" not in outside_code
    assert "</script>" not in outside_code


def test_a_report_of_nothing_is_a_page_that_says_what_to_run(tmp_path: Path) -> None:
    texts = " ".join(Outline(page_of(tmp_path, [])).texts)
    assert "Nothing has been run yet" in texts
    assert "tpo run terminal --scale quick --out DIR" in texts
    assert "tpo run terminal" in (tmp_path / "report.md").read_text(encoding="utf-8")


def test_a_study_without_any_run_still_has_a_section(tmp_path: Path) -> None:
    bare = {
        "name": "terminal",
        "title": "Terminal reward",
        "progress": {"cells_done": 0, "cells": 9},
    }
    assert "Terminal reward" in Outline(page_of(tmp_path, [bare])).texts


def test_rewriting_replaces_the_report_and_leaves_nothing_beside_it(tmp_path: Path) -> None:
    page_of(tmp_path, [])
    assert "Terminal reward" in page_of(tmp_path, samples.studies())
    assert sorted(p.name for p in tmp_path.iterdir()) == ["report.html", "report.md"]
    with pytest.raises(ValueError, match="is a folder, expected the name of a file"):
        reports.write_studies([], tmp_path)


def test_a_method_has_the_same_colour_everywhere_and_no_two_lines_share_a_style() -> None:
    alone = styles.css_classes([("grpo", "GRPO")])
    sweep = [("tpo", f"TPO, K = {k}") for k in range(12)] + [("grpo", "GRPO"), ("tpo", "TPO")]
    together = styles.css_classes(sweep)
    assert alone["GRPO"] == together["GRPO"] == "m1 d0"
    assert together["TPO"] == "m0 d0"
    assert len(set(together.values())) == len(sweep)
    assert (
        styles.css_classes([("tpo_token", "TPO (token)"), ("ppo", "PPO")])["TPO (token)"] == "m0 d0"
    )


def test_the_options_of_a_method_share_its_colour() -> None:
    options = [f"tpo:eta={eta}" for eta in (1, 2, 3, 4, 5)]
    found = styles.css_classes((name, name) for name in ("grpo:epochs=4", *options, "lpo", "gspo"))
    assert found["grpo:epochs=4"] == "m1 d0"
    assert [found[name] for name in options[:4]] == ["m0 d0", "m0 d1", "m0 d2", "m0 d3"]
    assert (found["lpo"], found["gspo"]) == ("m5 d0", "m2 d0")
    assert found[options[4]] == "m3 d0"  # a hue that no family of this figure has
    assert styles.css_classes([("lpo", "LPO"), ("tpo_no_anchor", "x")])["LPO"] != "m5 d0"


def test_numbers_read_short() -> None:
    shown = [number(x) for x in (0.012345, 12.345, 1234.6, 0.0, 1e-6, 7, None, "-", float("nan"))]
    assert shown == ["0.0123", "12.3", "1,235", "0", "1.0e-06", "7", "–", "-", "–"]
    assert [duration(s) for s in (45, 754, 12345)] == ["45 s", "13 min", "3.4 h"]
    assert plain({"a": (0.123456789, float("inf"), True)}) == {"a": [0.12346, None, True]}


def test_a_folder_without_results_is_refused_with_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="needs DIR"):
        report_command()
    Store(tmp_path / "empty")
    for name, words in {
        "nowhere": "nowhere', expected an existing folder of results",
        "empty": "empty holds no results of a study: run one first",
    }.items():
        with pytest.raises(ValueError, match=words):
            report_command(str(tmp_path / name))
    assert [p.relative_to(tmp_path).as_posix() for p in sorted(tmp_path.rglob("*"))] == [
        "empty",
        "empty/store.json",
    ]


def test_the_playground_alone_is_one_file(tmp_path: Path, capsys: Any) -> None:
    out = tmp_path / "play.html"
    assert report_command("--playground", "--out", str(out)) == 0
    assert capsys.readouterr().out.strip() == str(out)
    assert 'id="playground-body"' in out.read_text(encoding="utf-8")
    assert [p.name for p in tmp_path.iterdir()] == ["play.html"]

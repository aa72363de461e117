"""The built documentation: links resolve, equations are valid, and pages work offline, on a phone and by keyboard."""

import re
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest

from support import ROOT
from support.browser import Tab

PAGES = (
    "index",
    "learn/12-tpo",
    "guides/own-reward",
    "reference/objectives/grpo",
    "reference/objectives/papers",
    "research/index",
    "research/studies/terminal",
    "research/comparisons/index",
    "learn/playground",
)
LAYOUTS = {
    "desktop": {"viewport": {"width": 1280, "height": 900}},
    "phone": {"viewport": {"width": 390, "height": 844}, "has_touch": True},
    "dark": {"viewport": {"width": 1280, "height": 900}, "color_scheme": "dark"},
}


def pages(site: Path) -> Iterator[tuple[Path, str]]:
    """Every page with its text."""
    for path in sorted(site.rglob("*.html")):
        if not path.is_relative_to(site / "_static"):
            yield path, path.read_text(encoding="utf-8")


def test_every_link_between_pages_resolves(site: Path) -> None:
    texts = dict(pages(site))
    missing, found = [], 0
    for path, text in texts.items():
        for link in re.findall(r'(?:href|src)="([^"]+)"', text):
            target, _, anchor = unescape(link).partition("#")
            if re.match(r"[a-z]+:", target):
                continue
            file = (path.parent / unquote(target.partition("?")[0])).resolve() if target else path
            known = file.is_file() and (
                "=" in anchor  # the state of the playground
                or not anchor
                or file not in texts
                or f'id="{anchor}"' in texts[file]
            )
            found += 1
            if not known:
                missing.append(f"{path.relative_to(site)}: {link}")
    assert found > 1000
    assert sorted(set(missing)) == []


def test_katex_accepts_every_equation(site: Path, tab: Tab) -> None:
    equations = {
        unescape(tex): path.name
        for path, text in pages(site)
        for tex in re.findall(r'<(?:span|div) class="math">(.*?)</', text, flags=re.DOTALL)
    }
    assert len(equations) > 100
    tab.page.goto("about:blank")
    tab.page.add_script_tag(path=str(site / "_static/katex/katex.min.js"))
    refused = tab.page.evaluate(
        """all => all.flatMap(tex => {
            try { katex.renderToString(tex, { strict: "error" }); return [] }
            catch (error) { return [`${tex}: ${error.message}`] } })""",
        list(equations),
    )
    assert refused == []


@pytest.mark.parametrize("layout", LAYOUTS)
def test_pages_read_well_offline(site: Path, browser: Any, layout: str) -> None:
    context = browser.new_context(offline=True, **LAYOUTS[layout])
    for name in PAGES:
        tab = Tab(context.new_page())
        page = tab.open(site / f"{name}.html")
        page.wait_for_load_state()
        page.evaluate("document.fonts.ready")
        assert tab.errors == [], name
        assert all(url.startswith(("file:", "data:", "blob:")) for url in tab.requests), name
        width, view = page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
        assert width <= view, f"{name} scrolls sideways on a {layout}"
        drawn = "[...document.querySelectorAll('.math')].every(e => e.querySelector('.katex-html'))"
        assert page.evaluate(drawn), name
        broken = "[...document.images].filter(i => i.complete && !i.naturalWidth).map(i => i.src)"
        assert page.evaluate(broken) == [], name
        page.close()
    context.close()


def test_equations_are_set_in_the_shipped_fonts(site: Path, tab: Tab) -> None:
    page = tab.open(site / "index.html")
    page.wait_for_selector(".katex-html")
    loaded = page.evaluate(
        "document.fonts.ready.then(all => [...all].filter(f => f.status == 'loaded').map(f => f.family))"
    )
    assert any("KaTeX" in family for family in loaded)


def test_dark_pages_are_dark(site: Path, browser: Any) -> None:
    context = browser.new_context(color_scheme="dark")
    page = Tab(context.new_page()).open(site / "reference/objectives/grpo.html")
    shade = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert max(map(int, re.findall(r"\d+", shade)[:3])) < 60
    context.close()


def test_the_four_doors_are_reached_by_keyboard(site: Path, tab: Tab) -> None:
    page = tab.open(site / "index.html")
    focused = []
    for _ in range(40):
        page.keyboard.press("Tab")
        focused.append(page.evaluate("document.activeElement.getAttribute('href') || ''"))
    assert focused[0].startswith("#"), "the first stop skips to the content"
    doors = [f"{door}/index.html" for door in ("learn", "guides", "reference", "research")]
    cards = page.evaluate(
        "[...document.querySelectorAll('.sd-card a')].map(a => a.getAttribute('href'))"
    )
    assert cards == doors
    assert set(doors) <= set(focused)


def test_executed_pages_are_offered_as_notebooks(site: Path) -> None:
    sources = (ROOT / "docs").rglob("*.md")
    executed = [
        path.relative_to(ROOT / "docs").with_suffix("")
        for path in sources
        if "file_format: mystnb" in path.read_text(encoding="utf-8")[:200]
    ]
    lessons = [page for page in executed if page != Path("index")]
    assert lessons
    for page in lessons:
        html = (site / page).with_suffix(".html").read_text(encoding="utf-8")
        assert f"_notebooks/{page}.ipynb" in html

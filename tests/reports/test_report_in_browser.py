"""The report's page in Chromium: contents, print, narrow screens, themes, and text that tries to be markup."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from support import samples
from tpo import reports


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return reports.write_studies(samples.studies(), tmp_path_factory.mktemp("out") / "report.html")


@pytest.fixture
def page(tab: Any, written: Path) -> Any:
    tab.open(written).wait_for_selector("html[data-ready] .panel .canvas svg *")
    return tab.page


def study(page: Any, name: str) -> Any:
    return page.locator(f"#study-{name}")


def test_every_link_of_the_contents_is_seen_and_leads_to_its_part(page: Any) -> None:
    links = page.locator("#contents a")
    texts = [link.text_content() for link in links.all()]
    assert texts[:3] == ["Overview", "Terminal reward", "The three diagnostics"]
    for link in links.all():
        box = link.bounding_box()
        assert box["x"] >= 0
        assert box["y"] + box["height"] <= 900
        assert page.locator(link.get_attribute("href")).count() == 1
    page.get_by_role("link", name="The three diagnostics").first.click()
    page.locator("#contents [aria-current]", has_text="The three diagnostics").wait_for()


def test_no_table_is_cut_off(page: Any) -> None:
    page.locator("details").evaluate_all("all => all.forEach(one => { one.open = true; })")
    boxes = page.locator(".scroll").evaluate_all(
        "all => all.map(e => [e.scrollWidth - e.clientWidth, e.scrollHeight - e.clientHeight])"
    )
    assert len(boxes) == 2
    assert boxes == [[0, 0]] * 2
    assert not page.locator("th.extra").first.is_visible()
    page.locator("#study-terminal .all-columns").check()
    assert page.locator("th.extra").first.is_visible()


def test_print_shows_what_is_closed(page: Any) -> None:
    settings = study(page, "terminal").locator("details").last
    page.emulate_media(media="print")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert settings.get_attribute("open") is not None
    assert not page.locator("header.top button").first.is_visible()
    assert not page.locator("#contents").is_visible()
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert settings.get_attribute("open") is None


@pytest.mark.parametrize("width", [390, 768])
def test_narrow_screens_do_not_scroll_sideways(tab: Any, written: Path, width: int) -> None:
    tab.page.set_viewport_size({"width": width, "height": 800})
    page = tab.open(written)
    page.wait_for_selector("html[data-ready]")
    page.locator("#playground .choice button[data-value='8']").click()
    page.get_by_role("button", name="all objectives").click()
    page.locator("details").evaluate_all("all => all.forEach(one => { one.open = true; })")
    page.wait_for_timeout(150)
    page.get_by_role("button", name="Contents").click()
    assert page.locator("#contents a").last.is_visible()
    page.locator("#contents a").last.click()
    assert not page.locator("#contents").is_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert tab.errors == []


def test_light_and_dark_follow_the_system_and_the_button(browser: Any, written: Path) -> None:
    colours = {}
    for scheme in ("light", "dark"):
        context = browser.new_context(color_scheme=scheme)
        page = context.new_page()
        page.goto(written.as_uri())
        page.wait_for_selector("html[data-ready]")
        colours[scheme] = page.evaluate("getComputedStyle(document.body).backgroundColor")
        if scheme == "light":
            page.locator("#theme").click()
            page.locator("#theme").click()
            assert page.locator("#theme").text_content() == "theme: dark"
            chosen = page.evaluate("getComputedStyle(document.body).backgroundColor")
        context.close()
    assert colours["light"] == "rgb(255, 255, 255)"
    assert chosen == colours["dark"] != colours["light"]


def test_hostile_text_stays_text_in_the_browser(tab: Any, tmp_path: Path) -> None:
    page = tab.open(reports.write_studies([samples.hostile()], tmp_path / "report.html"))
    page.wait_for_selector("html[data-ready] .panel svg *")
    page.locator("#study-hostile svg.plot").first.focus()
    page.keyboard.press("End")
    assert page.title() == "Target policy optimization: results"
    assert page.locator("img").count() == 0
    assert page.locator(".readout:visible").text_content().count(samples.EVIL) == 1
    assert tab.errors == []


def test_the_policy_stops_what_would_leave_the_page(tab: Any, written: Path) -> None:
    page = tab.open(written)
    stopped = page.evaluate(
        """() => new Promise(done => {
            document.addEventListener('securitypolicyviolation', e => done(e.effectiveDirective));
            setTimeout(() => done('loaded'), 3000);
            document.body.append(Object.assign(new Image(), { src: 'http://127.0.0.1:9/x.png' }));
        })"""
    )
    assert stopped == "img-src"


def test_a_report_of_nothing_still_has_a_playground(tab: Any, tmp_path: Path) -> None:
    page = tab.open(reports.write_studies([], tmp_path / "report.html"))
    page.wait_for_selector("html[data-ready]")
    assert page.get_by_role("heading", name="Nothing has been run yet").is_visible()
    assert page.locator("[data-push]").count() > 5
    assert tab.errors == []

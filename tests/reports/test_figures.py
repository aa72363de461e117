"""The report in Chromium: every figure is drawn, shows its numbers, and works with mouse and keyboard."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from support import samples
from tpo import reports
from tpo.reports.wording import number


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return reports.write_studies(samples.studies(), tmp_path_factory.mktemp("out") / "report.html")


@pytest.fixture
def page(tab: Any, written: Path) -> Any:
    tab.open(written).wait_for_selector("html[data-ready] .panel .canvas svg *")
    return tab.page


def panel(page: Any, title: str) -> Any:
    return page.locator(".panel").filter(has=page.get_by_role("heading", name=title, exact=True))


def study(page: Any, name: str) -> Any:
    return page.locator(f"#study-{name}")


def test_every_figure_is_drawn_without_errors_or_requests(tab: Any, written: Path) -> None:
    page = tab.open(written)
    page.wait_for_selector("html[data-ready]")
    page.wait_for_timeout(200)
    drawn = page.locator(".panel .canvas").evaluate_all(
        """hosts => hosts.map(h => ({
            title: h.closest('.panel').querySelector('h3').textContent,
            marks: h.querySelectorAll('path.centre, .bar rect, .mark circle, .arrow *').length,
            width: h.getBoundingClientRect().width, empty: Boolean(h.querySelector('.empty')) }))"""
    )
    planned = [p for s in samples.studies() for p in s["panels"]]
    assert len(drawn) >= len(planned) + 1  # the performance profile, and the playground's own
    for host in drawn:
        empty = host["title"] == "H = 8, interaction-matched"
        simplex_of_three = host["title"].startswith("The simplex")  # hidden unless K is 3
        assert host["empty"] == empty, host
        assert host["marks"] > 0 or empty or simplex_of_three, host
        assert host["width"] > 100 or simplex_of_three, host
    assert tab.errors == []
    assert tab.requests == [written.as_uri()]


def test_a_panel_has_a_line_and_a_band_per_method(page: Any) -> None:
    first = panel(page, "H = 7, prompt-matched")
    assert first.locator("path.centre").count() == len(samples.METHODS)
    assert first.locator("polygon.band").count() == len(samples.METHODS)
    styles = first.locator("g.series").evaluate_all(
        "gs => gs.map(g => getComputedStyle(g.querySelector('path')).stroke)"
    )
    assert len(set(styles)) == len(samples.METHODS)


def test_the_legend_hides_a_method_in_every_panel_by_mouse_and_by_keyboard(page: Any) -> None:
    terminal = study(page, "terminal")
    lines = terminal.locator(".panels").first.locator("path.centre")
    before = lines.count()
    entry = terminal.locator(".legend button").filter(has_text="DG")
    entry.click()
    assert lines.count() == before - 3  # DG has run in two panels, and has a profile
    assert entry.get_attribute("aria-pressed") == "false"
    entry.focus()
    page.keyboard.press("Space")
    assert lines.count() == before
    assert "n = 3–6 of 6" in terminal.locator(".legend button").first.text_content()


def test_switches_change_the_scale_the_centre_and_show_seeds(page: Any) -> None:
    terminal, first = study(page, "terminal"), panel(page, "H = 7, prompt-matched")
    line = first.locator("path.centre").first
    logarithmic = line.get_attribute("d")
    assert "0.1" in first.locator(".grid text").all_text_contents()
    terminal.get_by_role("button", name="linear", exact=True).click()
    assert line.get_attribute("d") != logarithmic
    terminal.get_by_role("button", name="log", exact=True).click()
    assert line.get_attribute("d") == logarithmic
    terminal.get_by_role("button", name="median").click()
    assert first.locator("polygon.band").count() == 0
    terminal.get_by_role("button", name="single seeds").click()
    assert first.locator("path.seed").count() == 6 * len(samples.METHODS)


def test_the_last_value_of_each_seed_is_a_dot(page: Any) -> None:
    study(page, "terminal").get_by_role("button", name="last value of each seed").click()
    first = panel(page, "H = 7, prompt-matched")
    first.locator(".strip circle").first.wait_for()
    assert first.locator(".strip circle").count() == 6 * len(samples.METHODS)
    assert panel(page, "H = 7, interaction-matched").locator(".strip circle").count() == 3 * 2


def test_keys_and_mouse_read_the_numbers_out(page: Any) -> None:
    first = panel(page, "H = 7, prompt-matched")
    plot, readout = first.locator("svg.plot"), first.locator(".readout")
    tpo = samples.terminal()["panels"][0]["series"][0]
    plot.focus()
    page.keyboard.press("End")
    assert readout.is_visible()
    text = readout.text_content()
    assert text.startswith("1980")
    assert f"TPO (n = 6) {number(tpo['mean'][-1])} ± {number(tpo['se'][-1], 2)}" in text
    assert first.locator("[aria-live]").text_content() == text
    page.keyboard.press("ArrowLeft")
    assert readout.text_content().startswith("1960")
    page.keyboard.press("Escape")
    assert not readout.is_visible()
    plot.hover()
    assert readout.is_visible()
    box, inner = readout.bounding_box(), first.bounding_box()
    assert box["x"] >= inner["x"]
    assert box["x"] + box["width"] <= inner["x"] + inner["width"]


def test_a_panel_can_be_enlarged(page: Any) -> None:
    first = panel(page, "H = 7, prompt-matched")
    before = first.bounding_box()["width"]
    first.get_by_role("button", name="Enlarge this panel").click()
    page.wait_for_timeout(100)
    assert first.bounding_box()["width"] > 2 * before
    assert float(first.locator("svg.plot").get_attribute("viewBox").split()[2]) > 2 * before * 0.8


def test_bars_carry_their_values_and_the_colours_of_their_methods(page: Any) -> None:
    share = panel(page, "Gradient share")
    assert share.locator("text.value").all_text_contents() == ["1", "19", "10.2", "19", "1.68"]
    bar = share.locator(".bar").nth(4)
    line = panel(page, "H = 7, prompt-matched").locator("g.series").first
    colour = "e => getComputedStyle(e).getPropertyValue('--c')"
    assert bar.evaluate(colour) == line.evaluate(colour)  # both are TPO


@pytest.mark.parametrize("width", [375, 768])
def test_narrow_screens_do_not_scroll_sideways(tab: Any, written: Path, width: int) -> None:
    tab.page.set_viewport_size({"width": width, "height": 800})
    page = tab.open(written)
    page.wait_for_selector("html[data-ready]")
    page.locator("#playground .choice button[data-value='8']").click()
    page.get_by_role("button", name="all objectives").click()
    for details in page.locator("details").all():
        details.locator("summary").click()
    page.wait_for_timeout(150)
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

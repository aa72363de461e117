"""The report in Chromium: every figure is drawn, shows its numbers, and works with mouse and keyboard."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from support import samples
from tpo import reports
from tpo.reports.wording import number

METHODS = ("TPO", "GRPO", "GRPO without KL", "PPO", "DG")
LAST_TEXTS = "labels => labels.map(label => label.lastChild.textContent)"
"""Of labels, whose first child is their tooltip."""


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
    page.locator("details.more").evaluate_all("all => all.forEach(one => { one.open = true; })")
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


def test_the_legend_isolates_methods_by_mouse_and_by_keyboard(page: Any) -> None:
    terminal = study(page, "terminal")
    lines = terminal.locator(".panels").first.locator("g.series")
    bright = terminal.locator(".panels").first.locator("g.series:not(.dim)")
    entry = terminal.locator(".legend button").filter(has_text="DG")
    entry.click()
    assert bright.count() == 4  # two panels have DG; in the third, which has not, TPO and GRPO
    assert lines.count() == 12
    assert entry.get_attribute("aria-pressed") == "true"
    entry.focus()
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("Space")  # PPO beside it
    assert terminal.locator(".legend [aria-pressed=true]").all_text_contents() == [
        "PPO n = 6",
        "DG n = 6",
    ]
    page.keyboard.press("Escape")
    assert bright.count() == lines.count()
    assert "n = 3–6 of 6" in terminal.locator(".legend button").first.text_content()


def test_a_click_on_a_line_isolates_it(page: Any) -> None:
    first = panel(page, "H = 7, prompt-matched")
    plot = first.locator("svg.plot")
    plot.focus()
    page.keyboard.press("End")
    dot = first.locator(".cursor circle").first
    plot.click(position={axis: float(dot.get_attribute(f"c{axis}")) for axis in "xy"})
    assert first.locator("g.series:not(.dim)").count() == 1
    assert study(page, "terminal").locator(".legend [aria-pressed=true]").count() == 1


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


def test_the_final_value_of_each_seed_is_a_dot(page: Any) -> None:
    study(page, "terminal").get_by_role("button", name="final value of each seed").click()
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


def test_an_enlarged_panel_fills_the_window_until_escape(page: Any) -> None:
    button = panel(page, "H = 7, prompt-matched").get_by_role("button", name="Enlarge this panel")
    button.click()
    dialog = page.locator("dialog")
    dialog.locator("path.centre").first.wait_for()
    box = dialog.bounding_box()
    assert (box["width"], box["height"]) == (1280, 900)
    plot = dialog.locator("svg.plot").bounding_box()
    assert plot["width"] > 1100
    assert plot["height"] > 550
    assert box["height"] >= plot["y"] + plot["height"]
    assert set(METHODS) <= set(dialog.locator(".end-label").evaluate_all(LAST_TEXTS))
    dialog.get_by_role("button", name="DG").click()
    assert dialog.locator("g.series:not(.dim)").count() == 1
    dialog.locator("svg.plot").focus()
    page.keyboard.press("Escape")
    dialog.wait_for(state="detached")
    assert button.evaluate("b => b === document.activeElement")
    chosen = study(page, "terminal").locator(".legend [aria-pressed=true]")
    assert chosen.all_text_contents() == ["DG n = 6"]  # the page shows what was chosen


def test_a_performance_profile_is_drawn_as_steps(page: Any) -> None:
    terminal = study(page, "terminal")
    terminal.locator("details.more summary").click()
    profile = panel(page, "Performance profile")
    line = profile.locator("path.centre").first
    line.wait_for()
    assert re.fullmatch(r"M[\d.]+ [\d.]+(H[\d.]+V[\d.]+)+H[\d.]+", line.get_attribute("d"))
    texts = profile.locator("text.label").all_text_contents()
    assert texts == ["final error τ", "share of runs with a final error of at most τ"]
    assert set(METHODS) <= set(profile.locator(".end-label").evaluate_all(LAST_TEXTS))
    profile.locator("svg.plot").focus()
    page.keyboard.press("Home")
    assert profile.locator(".readout div").count() == len(METHODS)


def test_of_many_lines_a_few_are_in_colour(tab: Any, tmp_path: Path) -> None:
    page = tab.open(reports.write_studies([samples.league()], tmp_path / "report.html"))
    page.wait_for_selector("html[data-ready] .panel svg path")
    lines = page.locator("#study-compare .panels").first
    bright = lines.locator("g.series:not(.dim)")
    assert lines.locator("g.series").count() == 12
    labels = set(lines.locator(".end-label").evaluate_all(LAST_TEXTS))
    assert labels == {"TPO", "GRPO", "Method 0", "Method 1"}  # the known ones, and the best two
    legend = page.locator("#study-compare .legend")
    assert legend.locator("button").first.text_content().startswith("Method 0")  # the best first
    assert legend.bounding_box()["y"] >= sum(lines.bounding_box()[key] for key in ("y", "height"))
    legend.get_by_role("button", name="Method 7").click()
    assert bright.count() == 1
    legend.get_by_role("button", name="show all").click()
    assert bright.count() == 12
    assert tab.errors == []


def test_bars_carry_their_values_and_the_colours_of_their_methods(page: Any) -> None:
    share = panel(page, "Gradient share")
    assert share.locator("text.value").all_text_contents() == ["1", "19", "10.2", "19", "1.68"]
    bar = share.locator(".bar").nth(4)
    line = panel(page, "H = 7, prompt-matched").locator("g.series").first
    colour = "e => getComputedStyle(e).getPropertyValue('--c')"
    assert bar.evaluate(colour) == line.evaluate(colour)  # both are TPO

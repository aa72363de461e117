"""The playground's address in Chromium: presets and states travel in it, and a wrong one changes nothing."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from support.playground_page import case_of, check, press, shown
from tpo import reports
from tpo.reports.html.page import presets

PRESETS = presets()


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return reports.write_playground(tmp_path_factory.mktemp("play") / "playground.html")


@pytest.fixture
def page(tab: Any, written: Path) -> Any:
    tab.open(written).wait_for_selector("html[data-ready] [data-push]")
    yield tab.page
    assert tab.errors == []
    assert tab.requests == [written.as_uri()]


def test_an_address_opens_a_preset(page: Any, tab: Any, written: Path) -> None:
    page.goto("about:blank")
    page.goto(f"{written.as_uri()}#preset=stale-rollouts")
    page.wait_for_selector("html[data-ready] [data-push]")
    wanted = next(preset for preset in PRESETS if preset["name"] == "stale-rollouts")
    np.testing.assert_allclose(shown(page, "now"), wanted["start"], atol=1e-12)
    check(page)
    page.evaluate("location.hash = '#preset=low-eta'")
    page.wait_for_function("() => tpo.playground.state.options.eta === 0.25")
    page.evaluate("location.hash = '#preset=constructor'")
    page.wait_for_timeout(50)
    assert page.evaluate("tpo.playground.state.preset") == "low-eta"
    tab.requests[:] = [written.as_uri()]


def test_a_state_travels_in_the_address(page: Any, tab: Any, written: Path) -> None:
    page.get_by_role("button", name="unequal lengths").click()
    page.locator("#objective").select_option("lpo_reverse")
    page.locator("#score").select_option("mean")
    press(page, "[data-dial=eta]", "ArrowRight", "ArrowRight")
    page.locator("#link").click()
    sent, before = page.url, case_of(page)
    page.goto("about:blank")
    page.goto(sent)
    page.wait_for_selector("html[data-ready] [data-push]")
    after = case_of(page)
    for key in ("name", "scores", "lengths", "epochs"):
        assert after[key] == before[key]
    assert after["options"].pop("score") == before["options"].pop("score") == "mean"
    assert after["options"] == pytest.approx(before["options"], rel=1e-6)
    assert page.locator("#score").input_value() == "mean"
    check(page)
    tab.requests[:] = [written.as_uri()]


@pytest.mark.parametrize(
    "hostile",
    ["p=1;s=0;n=1", "p=.5,.5;s=0,x;n=1,1", "p=.5,-1;s=0,1;n=1,1", "=;;=="],
)
def test_an_address_that_makes_no_sense_is_left_alone(page: Any, hostile: str) -> None:
    page.evaluate("h => { location.hash = '#playground:' + h }", hostile)
    page.wait_for_timeout(50)
    assert case_of(page)["pOld"] == [0.72, 0.144, 0.12, 0.016]
    assert case_of(page)["name"] == "tpo"
    check(page)


def test_a_policy_that_has_moved_travels_in_the_address(page: Any, tab: Any, written: Path) -> None:
    page.locator("[data-preset=ties]").click()
    page.locator("#link").click()
    sent, before = page.url, page.evaluate("tpo.playground.state")
    page.goto("about:blank")
    page.goto(sent)
    page.wait_for_selector("html[data-ready] [data-push]")
    after = page.evaluate("tpo.playground.state")
    assert after["start"] == pytest.approx(before["start"])
    assert (after["at"], after["beside"]) == ("now", before["beside"])
    check(page)
    page.get_by_role("button", name="Start at p old").click()
    assert page.evaluate("tpo.playground.state.start") is None
    check(page)
    tab.requests[:] = [written.as_uri()]


def test_an_address_cannot_name_what_is_no_objective(page: Any) -> None:
    words = "p=.5,.5;s=0,1;n=1,1;objective=__proto__;score=constructor;eta=1e999;epochs=1e9"
    page.evaluate("h => { location.hash = '#playground:' + h }", words)
    page.wait_for_function("() => tpo.playground.state.pOld.length === 2")
    case = case_of(page)
    assert (case["name"], case["options"]["score"], case["options"]["eta"]) == ("tpo", "", 1)
    assert case["epochs"] == 64
    check(page)


def test_a_page_around_it_gives_it_address_and_theme_and_takes_its_height(
    tab: Any, written: Path, monkeypatch: Any
) -> None:
    pytest.importorskip("sphinx")
    docs = Path(__file__).parents[2] / "docs"
    monkeypatch.syspath_prepend(docs)
    frame = importlib.import_module("_playground").FRAME.format(static="")
    script = (docs / "_static/playground-frame.js").read_text(encoding="utf-8")
    (written.parent / "playground-frame.js").write_text(script)
    around = written.parent / "around.html"
    around.write_text(f'<!doctype html><body data-theme="dark">{frame}</body>')
    tab.page.goto(f"{around.as_uri()}#preset=ties")
    inside = tab.page.frame_locator("iframe")
    inside.locator("[data-preset=ties][aria-pressed=true]").wait_for()
    assert not inside.locator("header.top").is_visible()
    inside.locator("html[data-theme=dark]").wait_for()
    tab.page.evaluate("document.body.dataset.theme = 'light'")
    inside.locator("html[data-theme=light]").wait_for()
    height = inside.locator("body").evaluate("e => e.offsetHeight")
    assert tab.page.locator("iframe").bounding_box()["height"] >= height - 1 > 1500
    tab.page.evaluate("location.hash = '#preset=low-eta'")
    inside.locator("[data-preset=low-eta][aria-pressed=true]").wait_for()
    assert tab.errors == []

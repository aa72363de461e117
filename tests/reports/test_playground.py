"""The playground in Chromium: what it shows equals the library's numbers, by mouse and by keyboard."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tpo
from support import playground_cases as numbers
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


def shown(page: Any, kind: str) -> np.ndarray:
    """The numbers behind the bars of p_old ("old"), p ("now") or q ("goal")."""
    values = page.locator(f"[data-shown={kind}]").evaluate_all(
        "all => all.map(e => +e.dataset.value)"
    )
    return np.asarray(values)


def pushes(page: Any) -> dict[str, np.ndarray]:
    found = page.locator("[data-push]").evaluate_all(
        "all => all.map(e => [e.dataset.push, e.dataset.values])"
    )
    return {name: np.asarray(json.loads(values)) for name, values in found}


def races(page: Any) -> dict[str, np.ndarray]:
    """p of each method that is played, at the epoch shown."""
    found = page.locator("[data-race]").evaluate_all(
        "all => all.map(e => [e.dataset.race, e.dataset.values])"
    )
    return {name: np.asarray(json.loads(values)) for name, values in found}


def case_of(page: Any) -> dict[str, Any]:
    """The state as a case for the library."""
    state = page.evaluate("tpo.playground.state")
    return {
        key: state[key]
        for key in ("name", "pOld", "start", "scores", "lengths", "options", "step", "epochs")
    }


def check(page: Any) -> None:
    """All that is shown, beside the library."""
    case = case_of(page)
    path = numbers.descent(case)
    np.testing.assert_allclose(shown(page, "old"), case["pOld"], atol=1e-12)
    np.testing.assert_allclose(shown(page, "now"), path["p"][-1], atol=1e-6)
    fitted = case["name"] if case["name"] in numbers.TARGETS else "tpo"
    q, P = numbers.fitted({**case, "name": fitted}, np.log(path["p"][-1]))
    np.testing.assert_allclose(shown(page, "goal"), q, atol=1e-6)
    np.testing.assert_allclose(shown(page, "fit"), P, atol=1e-6)
    here = np.log(
        case["pOld"] if page.evaluate("tpo.playground.state.at") == "old" else path["p"][-1]
    )
    for name, played in races(page).items():
        np.testing.assert_allclose(
            played, numbers.descent({**case, "name": name})["p"][-1], atol=1e-6, err_msg=name
        )
    for name, push in pushes(page).items():
        expected = numbers.push({**case, "name": name}, here)
        np.testing.assert_allclose(push, expected, atol=1e-6, err_msg=name)


def press(page: Any, selector: str, *keys: str) -> None:
    page.locator(selector).focus()
    for key in keys:
        page.keyboard.press(key)


def test_it_opens_on_the_talks_rare_failure(page: Any) -> None:
    push = pushes(page)["tpo"]
    np.testing.assert_allclose(push, tpo.diagnostics.population.rare_failure(), atol=1e-6)
    assert "45 times" in page.locator(".results .live").text_content()
    check(page)


def test_every_preset_equals_the_library(page: Any, written: Path) -> None:
    page.get_by_role("button", name="all objectives").click()
    for preset in PRESETS:
        page.locator(f"[data-preset={preset['name']}]").click()
        assert page.url == f"{written.as_uri()}#preset={preset['name']}"
        assert page.locator(".look").text_content() == preset["look"]
        assert case_of(page)["pOld"] == preset["pOld"]
        assert len(pushes(page)) >= 20
        check(page)
        press(page, "[data-dial=epochs]", "End")
        page.get_by_role("button", name="at p now").click()
        check(page)


@pytest.mark.parametrize(
    "objective", ["grpo", "ppo", "dg", "lpo_reverse", "tpo_no_anchor", "tpo_outcomes", "gspo"]
)
def test_following_an_objective_equals_the_library(page: Any, objective: str) -> None:
    page.get_by_role("button", name="unequal lengths").click()
    page.locator("#objective").select_option(objective)
    for score in ("mean", "ratio", "mean_ratio", "sum"):
        page.locator("#score").select_option(score)
        check(page)


def test_the_fitted_distribution_is_shown_where_it_is_not_p(page: Any) -> None:
    assert not page.locator("[data-shown=fit]").first.is_visible()
    press(page, "[data-dial=epochs]", "End")
    page.locator("#score").select_option("ratio")
    assert page.locator("[data-shown=fit]").first.is_visible()
    page.locator("[data-dial=epochs]").focus()
    page.keyboard.press("Home")
    np.testing.assert_allclose(shown(page, "fit"), 0.25)  # at the snapshot every ratio is 1


def test_every_dial_works_by_keyboard(page: Any) -> None:
    page.locator("[data-push=grpo]").focus()
    page.keyboard.press("Enter")
    assert page.locator("[data-push=grpo]").get_attribute("aria-pressed") == "true"
    assert page.evaluate("document.activeElement.dataset.push") == "grpo"
    for dial in ("eta", "step", "epochs", "clip", "beta", "gateTemperature"):
        before = {**case_of(page), **case_of(page)["options"]}[dial]
        press(page, f"[data-dial={dial}]", "ArrowRight", "ArrowRight")
        after = {**case_of(page), **case_of(page)["options"]}[dial]
        assert after > before, dial
        check(page)


def test_p_old_is_set_by_keyboard_and_stays_a_distribution(page: Any) -> None:
    before = shown(page, "old")
    press(page, "[data-slider='3']", *["ArrowRight"] * 10)
    after = shown(page, "old")
    assert after[3] == pytest.approx(before[3] + 0.1, abs=0.02)
    assert after.sum() == pytest.approx(1)
    np.testing.assert_allclose(
        after[:3] / after[:3].sum(), before[:3] / before[:3].sum(), atol=1e-9
    )
    press(page, "[data-slider='0']", "End")
    assert shown(page, "old").min() > 0
    check(page)


def test_p_old_is_set_by_dragging(page: Any) -> None:
    slider = page.locator("[data-slider='0']")
    box = slider.bounding_box()
    page.mouse.move(box["x"] + 0.72 * box["width"], box["y"] + box["height"] / 2)
    page.mouse.down()
    page.mouse.move(box["x"] + 0.3 * box["width"], box["y"] + box["height"] / 2, steps=4)
    page.mouse.up()
    assert shown(page, "old")[0] == pytest.approx(0.3, abs=0.08)
    check(page)


@pytest.mark.parametrize("K", [2, 8])
def test_the_number_of_candidates_can_change(page: Any, K: int) -> None:
    page.locator(f".choice button[data-value='{K}']").click()
    assert len(shown(page, "old")) == K
    assert shown(page, "old").sum() == pytest.approx(1)
    page.locator("[data-score='1']").fill("-2.5")
    page.locator("[data-length='1']").fill("12")
    assert case_of(page)["scores"][1] == -2.5
    assert case_of(page)["lengths"][1] == 12
    check(page)


def test_the_simplex_moves_p_old_by_mouse_and_by_keyboard(page: Any) -> None:
    page.get_by_role("button", name="three candidates").click()
    triangle = page.locator("svg.draggable")
    assert triangle.locator(".mark").count() == 3
    before = shown(page, "old")
    press(page, "svg.draggable", "ArrowUp", "ArrowUp")
    lifted = shown(page, "old")
    assert lifted[0] > before[0]
    assert lifted.sum() == pytest.approx(1)
    handle = triangle.locator(".mark.old circle").bounding_box()
    page.mouse.move(handle["x"] + 5, handle["y"] + 5)
    page.mouse.down()
    page.mouse.move(handle["x"] + 65, handle["y"] + 5, steps=4)
    page.mouse.up()
    moved = shown(page, "old")
    assert moved[2] > lifted[2] + 0.05
    assert moved[0] == pytest.approx(lifted[0], abs=0.02)
    check(page)
    page.get_by_role("button", name="zero variance").click()
    assert not triangle.is_visible()


def test_the_lines_of_python_give_the_push_that_is_shown(page: Any, capsys: Any) -> None:
    page.get_by_role("button", name="unequal lengths").click()
    page.get_by_role("button", name="all objectives").click()
    for name in (
        "tpo",
        "tpo_outcomes",
        "lpo",
        "grpo",
        "grpo_token",
        "grpo_no_kl",
        "ppo",
        "dg",
        "reinforce",
        "rloo",
    ):
        page.locator("#objective").select_option(name)
        scope: dict[str, Any] = {}
        exec(page.locator("pre.snippet").text_content(), scope)
        np.testing.assert_allclose(scope["push"], pushes(page)[name], atol=1e-6, err_msg=name)
    assert capsys.readouterr().out.count("[") == 10


def test_the_lines_of_python_give_the_push_after_the_epochs_too(page: Any, capsys: Any) -> None:
    page.locator("[data-preset=ppo-clip]").click()
    for name in ("ppo", "tpo", "reinforce"):
        page.locator("#objective").select_option(name)
        scope: dict[str, Any] = {}
        exec(page.locator("pre.snippet").text_content(), scope)
        np.testing.assert_allclose(scope["push"], pushes(page)[name], atol=1e-6, err_msg=name)
    assert capsys.readouterr().out.count("[") == 3


def test_the_formula_shows_the_picked_candidates_numbers(page: Any) -> None:
    page.locator(".target [data-pick='3']").click()
    assert page.evaluate("document.activeElement.dataset.pick") == "3"
    lines = page.locator(".target .formula").all_text_contents()
    u = tpo.standardize(np.array([0.0, 1.0, 1.0, 0.0]))
    q = tpo.target(np.log([0.72, 0.144, 0.12, 0.016]), u)
    assert lines[0].startswith("uD=")
    assert lines[0].endswith(f"=(−{-u[3]:g})")
    assert "0.016·0.368" in lines[1]
    assert lines[1].endswith(f"={q[3]:.3g}")
    cells = page.locator(".target tbody tr").nth(3).locator("td").all_text_contents()
    assert cells == ["0", "−1", "0.368", "0.016", "0.00589", f"{q[3]:.3g}"]
    page.locator("[data-preset=zero-variance]").click()
    assert "because σ = 0" in page.locator(".target .formula").first.text_content()


def test_playing_reaches_the_target_and_a_policy_gradient_goes_on(page: Any) -> None:
    page.locator("[data-preset=many-epochs]").click()
    page.get_by_role("button", name="slow").click()
    page.locator("[data-play=play]").click()
    page.wait_for_function("() => tpo.playground.state.epochs >= 1")
    page.locator("[data-play=play]").click()  # pauses
    page.get_by_role("button", name="fast").click()
    paused = case_of(page)["epochs"]
    check(page)
    page.locator("[data-play=step]").click()
    assert case_of(page)["epochs"] == paused + 1
    press(page, "[data-play=play]", "Enter")
    page.wait_for_function("() => tpo.playground.state.epochs === 64")
    assert page.locator("[data-play=play]").text_content() == "▶ Play"
    assert case_of(page)["epochs"] == 64
    assert page.locator("[data-race=tpo] .badge").text_content() == "at q"
    assert page.locator("[data-race=group_pg] .badge").text_content() == "moving"
    check(page)
    page.locator("[data-play=reset]").click()
    np.testing.assert_allclose(shown(page, "now"), case_of(page)["pOld"], atol=1e-12)


def test_with_reduced_motion_play_shows_the_last_epoch_at_once(page: Any) -> None:
    page.emulate_media(reduced_motion="reduce")
    page.locator("[data-preset=many-epochs]").click()
    page.locator("[data-play=play]").click()
    assert case_of(page)["epochs"] == 64
    check(page)


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


def test_sliders_are_filled_to_their_value(page: Any) -> None:
    for value in ("0.25", "1"):
        page.locator("[data-dial=clip]").fill(value)
        slider = page.locator("[data-dial=clip]")
        low, high, at = slider.evaluate("e => [+e.min, +e.max, +e.style.getPropertyValue('--at')]")
        assert at == pytest.approx((float(slider.input_value()) - low) / (high - low))
    assert at == 1


def test_the_clip_bound_and_the_share_equal_the_library(page: Any) -> None:
    press(page, "input[aria-label='p of the success']", "ArrowRight", "ArrowRight", "ArrowRight")
    p, clip, bound, *targets = json.loads(page.locator(".talk .live").get_attribute("data-values"))
    assert p > 0.01
    exact = tpo.diagnostics.population.clip_bound(p, clip)
    np.testing.assert_allclose(
        [bound, *targets], [exact.clipped, *exact.target.values()], atol=1e-6
    )
    press(page, "input[aria-label='actions']", "ArrowRight", "ArrowRight")
    rows = json.loads(page.locator(".talk [data-values]").last.get_attribute("data-values"))
    expected = tpo.diagnostics.population.gradient_share(arms=12)
    for row in rows:
        ours = (row["coefficient"], row["gradient"])
        np.testing.assert_allclose(ours, expected[row["method"]], atol=1e-6)
    assert page.locator(".talk text.value").first.text_content() == "1"


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

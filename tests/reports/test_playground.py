"""The playground in Chromium: what it shows equals the library's numbers, by mouse and by keyboard."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tpo
from support.playground_page import case_of, check, press, pushes, shown
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

"""The playground's formulas, run in Chromium, equal the library's."""

from __future__ import annotations

from importlib.resources import files
from typing import Any

import numpy as np
import pytest

import tpo
from support import playground_cases as numbers

SCORES = ("", "sum", "mean", "ratio", "mean_ratio")


@pytest.fixture
def maths(tab: Any) -> Any:
    tab.page.goto("about:blank")
    script = (files("tpo.reports.html") / "assets/maths.js").read_text(encoding="utf-8")
    tab.page.evaluate(script)
    return tab.page


def cases(name: str, seed: int, n: int = 60) -> list[dict[str, Any]]:
    """Random groups, options and policies that have moved away from p_old; every third with one-token rows."""
    rng = np.random.default_rng(seed)
    found = []
    for i in range(n):
        K = int(rng.integers(2, 9))
        p_old, moved = rng.dirichlet(np.ones(K)) + 1e-4, rng.dirichlet(np.ones(K)) + 1e-4
        near = i % 2 == 0
        log_p = np.log(p_old / p_old.sum())
        log_p = log_p + 0.1 * rng.standard_normal(K) if near else np.log(moved)
        scores = rng.standard_normal(K) if i % 4 == 0 else rng.integers(0, 2, K).astype(float)
        if name == "maxrl":
            scores = np.abs(scores)  # a mean near 0 magnifies rounding without bound
        found.append(
            {
                "name": name,
                "pOld": (p_old / p_old.sum()).tolist(),
                "logP": numbers.log_softmax(log_p).tolist(),
                "scores": scores.tolist(),
                "lengths": [1] * K if i % 3 == 0 else rng.integers(1, 30, K).tolist(),
                "options": {
                    "eta": float(rng.uniform(0.2, 4)),
                    "score": SCORES[i % 5],
                    "clip": float(rng.uniform(0.05, 0.5)),
                    "beta": float(rng.uniform(0.01, 1)),
                    "gateTemperature": float(rng.uniform(0.3, 3)),
                },
                "start": rng.dirichlet(np.ones(K) + 1).tolist() if i % 2 else None,
                "step": float(rng.uniform(0.05, 1)),
                "epochs": 12,
            }
        )
    return found


def test_every_choice_of_the_playground_is_an_objective_of_the_library(maths: Any) -> None:
    shown = maths.evaluate("Object.keys(tpo.maths.OBJECTIVES)")
    assert len(shown) >= 20
    assert set(shown) <= set(numbers.NAMES)


def test_defaults_are_the_published_ones(maths: Any) -> None:
    shown = maths.evaluate("tpo.maths.DEFAULTS")
    assert shown["eta"] == tpo.objective("tpo").eta  # type: ignore[attr-defined]
    grpo: Any = tpo.objective("grpo")
    assert (shown["clip"], shown["beta"]) == (grpo.clip, grpo.beta)
    assert shown["gateTemperature"] == tpo.objective("dg").gate_temperature  # type: ignore[attr-defined]


@pytest.mark.parametrize("seed", [0, 1])
def test_push_of_every_objective_equals_the_library(maths: Any, seed: int) -> None:
    everything = [
        case
        for name in maths.evaluate("Object.keys(tpo.maths.OBJECTIVES)")
        for case in cases(name, seed)
    ]
    shown = maths.evaluate(
        """all => all.map(c => tpo.maths.push(
            c.name, tpo.maths.groupOf(c.pOld, c.scores, c.lengths), c.options, c.logP))""",
        everything,
    )
    for case, ours in zip(everything, shown, strict=True):
        expected = numbers.push(case, np.asarray(case["logP"]))
        np.testing.assert_allclose(ours, expected, rtol=1e-6, atol=1e-6, err_msg=str(case))
    moved = [np.abs(x).max() for x in shown]
    assert np.mean(np.asarray(moved) > 1e-3) > 0.5


def test_descent_of_every_objective_equals_the_library(maths: Any) -> None:
    everything = [
        case
        for name in maths.evaluate("Object.keys(tpo.maths.OBJECTIVES)")
        for case in cases(name, seed=2, n=6)
    ]
    shown = maths.evaluate(
        """all => all.map(c => tpo.maths.descent(
            c.name, tpo.maths.groupOf(c.pOld, c.scores, c.lengths), c.options, c.step, c.epochs, c.start))""",
        everything,
    )
    for case, ours in zip(everything, shown, strict=True):
        expected = numbers.descent(case)
        for key in ("p", "norms"):
            np.testing.assert_allclose(
                ours[key], expected[key], rtol=1e-6, atol=1e-6, err_msg=str(case)
            )


def test_targets_equal_the_library(maths: Any) -> None:
    everything = [case for name in numbers.TARGETS for case in cases(name, seed=3, n=30)]
    shown = maths.evaluate(
        """all => all.map(c => { const g = tpo.maths.groupOf(c.pOld, c.scores, c.lengths);
            return tpo.maths.fitted(c.name, g, c.options, c.logP) })""",
        everything,
    )
    for case, ours in zip(everything, shown, strict=True):
        q, P = numbers.fitted(case, np.asarray(case["logP"]))
        np.testing.assert_allclose(ours["q"], q, rtol=1e-6, atol=1e-9)
        np.testing.assert_allclose(ours["P"], P, rtol=1e-6, atol=1e-9)


def test_the_numbers_in_the_targets_formula_equal_the_library(maths: Any) -> None:
    everything = [case for name in numbers.TARGETS for case in cases(name, seed=5, n=15)]
    shown = maths.evaluate(
        """all => all.map(c => tpo.maths.targetParts(
            c.name, tpo.maths.groupOf(c.pOld, c.scores, c.lengths), c.options))""",
        everything,
    )
    for case, ours in zip(everything, shown, strict=True):
        for key, expected in numbers.target_parts(case).items():
            np.testing.assert_allclose(ours[key], expected, rtol=1e-6, atol=1e-9, err_msg=key)
        product = np.asarray(ours["anchor"]) * ours["tilt"]
        np.testing.assert_allclose(ours["weight"], product, rtol=1e-12)
        np.testing.assert_allclose(product / ours["total"], ours["q"], rtol=1e-9)
        assert ours["mean"] == pytest.approx(np.mean(case["scores"]), abs=1e-9)
        assert ours["deviation"] == pytest.approx(np.std(case["scores"]), abs=1e-9)


def test_advantage_ratio_gate_and_clip_equal_the_library(maths: Any) -> None:
    families = maths.evaluate(
        "Object.entries(tpo.maths.OBJECTIVES).map(([name, kind]) => [name, kind.family, kind.ratio])"
    )
    everything = [
        {**case, "ratio": ratio}
        for name, family, ratio in families
        if family != "target"
        for case in cases(name, seed=6, n=15)
    ]
    shown = maths.evaluate(
        """all => all.map(c => tpo.maths.policyParts(
            c.name, tpo.maths.groupOf(c.pOld, c.scores, c.lengths), c.options, c.logP))""",
        everything,
    )
    clipped = 0
    for case, ours in zip(everything, shown, strict=True):
        log_p, lengths = np.asarray(case["logP"]), np.asarray(case["lengths"])
        for key, expected in numbers.policy_parts(case, log_p).items():
            known = ~np.isnan(expected)
            np.testing.assert_allclose(
                np.asarray(ours[key])[known], expected[known], rtol=1e-5, atol=1e-6, err_msg=key
            )
        if case["ratio"]:
            share = 1 if case["ratio"] == "sequence" else 1 / lengths
            ratio = np.exp((log_p - np.log(case["pOld"])) * share)
            np.testing.assert_allclose(ours["ratio"], ratio, rtol=1e-9)
            free = {**case, "options": {**case["options"], "beta": 1e-12}}
            push = numbers.push(free, log_p)
            gone = np.abs(push) < 1e-10
            assert not np.any(np.asarray(ours["clipped"]) & ~gone), case
            moved = np.abs(ours["advantage"]) > 1e-6
            assert not np.any(gone & moved & ~np.asarray(ours["clipped"])), case
            clipped += int(np.sum(ours["clipped"]))
    assert clipped > 50


def test_the_talk_equals_the_library(maths: Any) -> None:
    rng = np.random.default_rng(4)
    for _ in range(20):
        easy, hard, p = (float(x) for x in rng.uniform(0.01, 0.99, 3))
        arms, clip = int(rng.integers(2, 40)), float(rng.uniform(0.05, 0.5))
        shown = maths.evaluate("a => tpo.maths.gradientShare(...a)", [easy, hard, arms])
        expected = tpo.diagnostics.population.gradient_share(easy, hard, arms)
        assert [row["method"] for row in shown] == list(expected)
        for row in shown:
            ours = (row["coefficient"], row["gradient"])
            np.testing.assert_allclose(ours, expected[row["method"]], rtol=1e-6)
        bound = maths.evaluate("a => tpo.maths.clipBound(...a)", [p, clip, [4, 8, 16]])
        exact = tpo.diagnostics.population.clip_bound(p, clip, (4, 8, 16))
        np.testing.assert_allclose(bound["clipped"], exact.clipped, rtol=1e-6)
        np.testing.assert_allclose(bound["target"], list(exact.target.values()), rtol=1e-6)
    shown = maths.evaluate("tpo.maths.rareFailure([.72, .144, .12, .016], [0, 1, 1, 0])")
    # the talk has -.45, +.25, +.21, -.01
    np.testing.assert_allclose(shown, (-0.452, 0.252, 0.210, -0.0100), atol=5e-4)
    np.testing.assert_allclose(shown, tpo.diagnostics.population.rare_failure(), atol=1e-6)

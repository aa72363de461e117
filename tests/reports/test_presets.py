"""What the playground's presets say to look at is true of the library's numbers."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from support import playground_cases as numbers
from tpo.reports.html.page import presets

OPTIONS = {"eta": 1, "score": "", "clip": 0.2, "beta": 0.04, "gateTemperature": 1}
PRESETS = {preset["name"]: preset for preset in presets()}
DOCS = Path(__file__).parents[2] / "docs"


def case(preset: str, name: str, epochs: int = 64, **options: Any) -> dict[str, Any]:
    """A preset under an objective, as a case for the library."""
    found = PRESETS[preset]
    return {
        "name": name,
        "pOld": found["pOld"],
        "start": found.get("start"),
        "scores": found["scores"],
        "lengths": found.get("lengths", [1] * len(found["pOld"])),
        "options": {**OPTIONS, **found.get("options", {}), **options},
        "step": found.get("step", 1),
        "epochs": epochs,
    }


def first_push(preset: str, name: str) -> np.ndarray:
    """The push before the first epoch."""
    one = case(preset, name)
    return numbers.push(one, np.log(one["start"] or one["pOld"]))


def played(preset: str, name: str) -> np.ndarray:
    """p after 64 epochs."""
    p: np.ndarray = numbers.descent(case(preset, name))["p"][-1]
    return p


def target(preset: str, name: str = "tpo", **options: Any) -> np.ndarray:
    one = case(preset, name, **options)
    return numbers.fitted(one, np.log(one["pOld"]))[0]


def old(preset: str) -> np.ndarray:
    return np.asarray(PRESETS[preset]["pOld"])


def test_rare_failure() -> None:
    tpo, grpo = first_push("rare-failure", "tpo"), first_push("rare-failure", "grpo")
    assert tpo[0] < 40 * tpo[3] < 0
    assert grpo[0] == pytest.approx(grpo[3])


def test_three_candidates() -> None:
    np.testing.assert_allclose(
        played("three-candidates", "tpo"), target("three-candidates"), atol=1e-5
    )


def test_one_of_eight() -> None:
    assert target("one-of-eight")[0] > 15 * old("one-of-eight")[0]
    at = {
        ratio: old("one-of-eight") * np.where(np.arange(8) == 0, ratio, 1) for ratio in (1.19, 1.21)
    }
    push = {ratio: numbers.push(case("one-of-eight", "ppo"), np.log(p)) for ratio, p in at.items()}
    assert push[1.19][0] > 0
    assert push[1.21][0] == 0


def test_zero_variance() -> None:
    np.testing.assert_allclose(target("zero-variance"), old("zero-variance"))
    for name in ("tpo", "lpo", "lpo_reverse", "group_pg", "grpo", "ppo", "dg", "reinforce"):
        np.testing.assert_allclose(first_push("zero-variance", name), 0, atol=1e-12)
    np.testing.assert_allclose(target("zero-variance", "tpo_no_anchor"), 0.25)
    assert np.abs(first_push("zero-variance", "tpo_no_anchor")).max() > 0.1


def test_graded_scores() -> None:
    scores = np.asarray(PRESETS["graded-scores"]["scores"])
    tilt = numbers.target_parts(case("graded-scores", "tpo"))["tilt"]
    assert list(np.argsort(tilt)) == list(np.argsort(scores))
    lifted = target("graded-scores") > old("graded-scores")
    np.testing.assert_array_equal(lifted, scores > scores.mean())


def test_low_eta() -> None:
    assert target("low-eta").max() > 0.95
    away = [np.abs(target("low-eta", eta=eta) - old("low-eta")).sum() for eta in (0.25, 1, 4, 10)]
    assert away == sorted(away, reverse=True)
    assert away[-1] < 0.15


def test_many_epochs() -> None:
    np.testing.assert_allclose(played("many-epochs", "tpo"), target("many-epochs"), atol=0.005)
    run = numbers.descent(case("many-epochs", "group_pg"))
    assert run["p"][-1][[1, 3]].max() < 1e-6
    assert run["norms"][-1] == pytest.approx(run["norms"][0])


def test_stale_rollouts() -> None:
    start, q = PRESETS["stale-rollouts"]["start"][1], target("stale-rollouts")[1]
    assert start > q
    assert played("stale-rollouts", "tpo")[1] == pytest.approx(q, abs=0.005)
    assert played("stale-rollouts", "group_pg")[1] > start
    assert played("stale-rollouts", "ppo")[1] == pytest.approx(start)


def test_ties() -> None:
    tpo, pooled = played("ties", "tpo"), played("ties", "tpo_outcomes")
    assert tpo[0] / tpo[1] == pytest.approx(old("ties")[0] / old("ties")[1], rel=1e-3)
    assert pooled[:2].sum() == pytest.approx(target("ties")[:2].sum(), abs=1e-3)
    assert pooled[0] / pooled[1] < 0.2


def test_lpo_directions() -> None:
    forward, reverse = (first_push("lpo-directions", name) for name in ("lpo", "lpo_reverse"))
    assert forward[0] > 5 * reverse[0] > 0
    same = [target("lpo-directions", name) for name in ("lpo", "lpo_reverse", "tpo")]
    np.testing.assert_allclose(same[0], same[1])
    np.testing.assert_allclose(same[0], same[2])
    for name in ("lpo", "lpo_reverse"):
        np.testing.assert_allclose(played("lpo-directions", name), same[0], atol=0.02)


def test_ppo_clip() -> None:
    push = first_push("ppo-clip", "ppo")
    np.testing.assert_array_equal(push[[0, 2]], 0)
    assert push[1] > 0 > push[3]


def test_dg_gate() -> None:
    one = case("dg-gate", "dg")
    parts = numbers.policy_parts(one, np.log(one["pOld"]))
    np.testing.assert_allclose(np.abs(parts["advantage"]), np.abs(parts["advantage"][0]))
    assert parts["gate"][3] > 0.9
    assert parts["gate"][1] < 0.1


def test_gspo_and_grpo() -> None:
    np.testing.assert_array_equal(first_push("gspo-grpo", "gspo"), 0)
    assert np.abs(first_push("gspo-grpo", "grpo")).min() > 0.5


def test_unequal_lengths() -> None:
    assert np.abs(target("unequal-lengths") - target("unequal-lengths", score="mean")).max() > 0.1


def test_every_preset_is_tested_and_says_one_thing_to_look_at() -> None:
    tests = " ".join(name for name in globals() if name.startswith("test_"))
    missing = [
        name for name in PRESETS if name.replace("-", "_") not in tests.replace("_and_", "_")
    ]
    assert missing == []
    assert all(len(preset["look"].split()) <= 27 for preset in PRESETS.values())


def test_links_of_the_documentation_name_presets() -> None:
    pages = [*DOCS.rglob("*.md"), *DOCS.rglob("*.rst")]
    named = [name for page in pages for name in re.findall(r"#preset=([\w-]+)", page.read_text())]
    assert named
    assert set(named) <= set(PRESETS)

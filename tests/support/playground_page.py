"""What the playground shows in a browser, and a check of all of it against the library."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from support import playground_cases as numbers


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

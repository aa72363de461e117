"""Summaries as `tpo.reports.summary.summarise` returns them, without a run behind them."""

from __future__ import annotations

from typing import Any

import numpy as np

METHODS = {"tpo": "TPO", "grpo": "GRPO", "grpo_no_kl": "GRPO no KL", "ppo": "PPO", "dg": "DG"}
EVIL = "</script><img src=x onerror=\"document.title='broken'\">"


def series(method: str, label: str, seed: int, n: int = 6, planned: int = 6) -> dict[str, Any]:
    """Curves that fall at rates that differ between seeds, one seed stuck."""
    rng = np.random.default_rng(seed)
    x = np.arange(0, 2000, 20)
    rates = rng.uniform(1, 6, size=(n, 1))
    rates[0] = 0.1
    curves = np.clip(np.exp(-rates * x / 700) + 0.003 * rng.random((n, len(x))), 0, 1)
    return {
        "method": method,
        "label": label,
        "x": x.tolist(),
        "mean": curves.mean(0).tolist(),
        "se": (curves.std(0) / np.sqrt(n)).tolist(),
        "median": np.median(curves, 0).tolist(),
        "seeds": curves.tolist(),
        "n": n,
        "planned": planned,
        "done": n == planned,
    }


def row(coords: dict[str, Any], method: str, i: int) -> dict[str, Any]:
    return {
        "coords": coords,
        "method": method,
        "metric": "final error %",
        "published": ["6.9", "14.5", None, "76.4", "-"][i % 5],
        "ours": 2.345 + 10 * i,
        "mean": 2.345 + 10 * i,
        "median": 0.41 + i,
        "iqm": 1.2 + i,
        "iqm_low": 0.3 + i,
        "iqm_high": 4.5 + i,
        "best": 0.0001 * (i + 1),
        "last100": 2.2 + 9 * i,
        "solved": 5 - i,
        "n": 6,
        "steps_to_threshold": None if i else 812,
    }


def terminal() -> dict[str, Any]:
    """Half finished: the last panel has runs of two methods only, with fewer seeds."""
    panels, rows = [], []
    for j, (H, matching) in enumerate([(7, "prompt"), (8, "prompt"), (7, "interaction")]):
        coords = {"H": H, "matching": matching}
        methods = list(METHODS.items())[: 2 if j == 2 else None]
        lines = [
            series(m, label, 10 * j + i, n=3 if j == 2 else 6)
            for i, (m, label) in enumerate(methods)
        ]
        panels.append({"title": f"H = {H}, {matching}-matched", "coords": coords, "series": lines})
        rows += [row(coords, label, i) for i, (_, label) in enumerate(methods)]
    panels.append({"title": "H = 8, interaction-matched", "coords": {}, "series": []})
    taus = np.linspace(0, 1, 21)
    return {
        "name": "terminal",
        "title": "Terminal reward",
        "source": "Table 3, Fig. 8",
        "about": "Reverse a string of H tokens; the only reward is 1 when all of them are right.",
        "command": "tpo run terminal --scale quick",
        "scale": "quick",
        "settings": {
            "V": 2,
            "K": 8,
            "B": 100,
            "episodes": 2000,
            "learning_rate": 0.001,
            "H": [7, 8],
        },
        "x": {"label": "episode"},
        "y": {"label": "error", "log": True},
        "panels": panels,
        "table": {"columns": [], "rows": rows},
        "profiles": [
            {"label": label, "tau": taus.tolist(), "share": (taus ** (0.2 + i)).tolist()}
            for i, label in enumerate(METHODS.values())
        ],
        "verdicts": [
            {"claim": "TPO lowest at every H", "status": "holds", "detail": "H = 7: 2.3% (n = 6)"},
            {"claim": "GRPO fails at H = 10", "status": "undecided", "detail": "not run"},
            {
                "claim": "PPO solves H = 8",
                "status": "does not hold",
                "detail": "31% at the end (n = 6)",
            },
        ],
        "provenance": {"commit": "0123abc", "versions": {"tpo": "0.1", "jax": "0.10"}, "seeds": 6},
        "cost": {"seconds": 754.2, "device": "cpu"},
        "progress": {"cells_done": 12, "cells": 20},
    }


def league() -> dict[str, Any]:
    """Twelve lines in one panel; the first ones of ten unknown methods end lowest."""
    study = terminal()
    named = [("tpo", "TPO"), ("grpo", "GRPO"), *((f"method_{i}", f"Method {i}") for i in range(10))]
    lines = [series(method, label, i) for i, (method, label) in enumerate(named)]
    base = lines[0]["mean"]
    for i, line in enumerate(lines):
        line["mean"] = [value + 0.01 * (i - 2 if i > 1 else 20 + i) for value in base]
    study["panels"] = [{"title": "", "coords": {}, "series": lines}]
    return study | {"name": "compare", "title": "League", "profiles": []}


def talk() -> dict[str, Any]:
    names = ["CE", "PG", "DG", "GRPO", "TPO"]
    return {
        "name": "talk",
        "title": "The three diagnostics",
        "source": "talk",
        "about": "Exact, no sampling.",
        "command": "tpo run talk",
        "scale": "full",
        "settings": {},
        "x": {"label": ""},
        "y": {"label": "", "log": False},
        "panels": [
            {
                "title": "Gradient share",
                "kind": "bars",
                "series": [{"label": "easy / hard", "x": names, "y": [1, 19, 10.2, 19, 1.675]}],
            },
            {
                "title": "Rare failure",
                "kind": "bars",
                "series": [
                    {"label": "TPO", "x": list("ABCD"), "y": [-0.449, 0.249, 0.213, -0.0125]},
                    {"label": "GRPO", "x": list("ABCD"), "y": [-1, 1, 1, -1], "se": [0.1] * 4},
                ],
            },
            {
                "title": "Paths",
                "kind": "simplex",
                "series": [
                    {"label": "TPO", "points": [[0.2, 0.5, 0.3], [0.5, 0.3, 0.2], [0.8, 0.1, 0.1]]},
                    {"label": "q", "points": [[0.85, 0.09, 0.06]]},
                ],
            },
            {
                "title": "Arrows",
                "kind": "simplex",
                "corners": ["right", "wrong", "wrong"],
                "series": [
                    {
                        "label": "TPO",
                        "from": [[0.2, 0.5, 0.3], [0.4, 0.3, 0.3], [1, 0, 0]],
                        "to": [[0.5, 0.3, 0.2], [0.7, 0.1, 0.2], [1, 0, 0]],
                    }
                ],
            },
        ],
        "table": {"columns": [], "rows": []},
        "verdicts": [],
        "provenance": {},
        "cost": {},
        "progress": {"cells_done": 1, "cells": 1},
    }


def hostile() -> dict[str, Any]:
    """Every text that a store may carry tries to be markup; numbers are not numbers."""
    study = terminal()
    study |= {"name": "hostile", "title": EVIL, "about": EVIL, "source": EVIL, "command": EVIL}
    study["question"] = EVIL
    study["settings"] = {EVIL: EVIL}
    study["provenance"] = {"commit": EVIL}
    study["x"], study["y"] = {"label": EVIL}, {"label": EVIL, "log": False}
    rival = {
        "rival": EVIL,
        "settings": EVIL,
        "hold": EVIL,
        "effect": None,
        "p": None,
        "power": None,
    }
    study["verdicts"] = [
        {"claim": EVIL, "status": EVIL, "detail": EVIL, "reasons": [EVIL], "against": [rival]}
    ]
    for panel in study["panels"]:
        panel["title"] = EVIL
        for line in panel["series"][:1]:
            line["label"], line["mean"] = EVIL, [float("nan"), float("inf"), *line["mean"][2:]]
    for line in study["table"]["rows"]:
        line["method"] = line["published"] = EVIL
        line["mean"] = float("nan")
    return study


def studies() -> list[dict[str, Any]]:
    return [terminal(), talk()]

"""docs/research/llm-results.md, made of kept comparisons of language models."""

import re

import numpy as np
import pytest

from tpo.reports import comparisons
from tpo.reports.markdown import llm_page, results_page


def test_comparisons_of_language_models_are_beside_the_published_numbers(tmp_path):
    """Two methods on GSM8K, three seeds each: within 85 to 87, and below."""
    values = {"tpo": [85.5, 86.0, 86.5], "grpo": [70.0, 70.5, 71.0]}
    rows = [
        {"coords": {}, "method": name, "metric": "final accuracy %", "published": None, "n": 3,
         "mean": float(np.mean(x)), "values": x}
        for name, x in values.items()
    ]  # fmt: skip
    settings = {"model": "/somewhere/Qwen3-1.7B", "task": "gsm8k:/somewhere/gsm8k"}
    made = {"name": "llm-comparison", "title": "Qwen3-1.7B on gsm8k:/somewhere/gsm8k", "source": "tpo train --compare",
            "settings": settings, "scale": "custom", "table": {"rows": rows}, "verdicts": [], "command": "tpo train",
            "progress": {"cells_done": 6, "cells": 6}}  # fmt: skip
    path = comparisons.keep(tmp_path, made, "math")
    assert path.name == "math.json"
    assert "somewhere" not in path.read_text()
    *_, models = results_page.sections([], {}, comparisons.read(tmp_path).values())
    assert models["progress"] == {"cells_done": 2, "cells": 6}
    found = {(row["method"], row["metric"]): row for row in models["table"]["rows"][:2]}
    assert found["TPO", "final accuracy %"]["agreement"] == "agrees"
    assert found["GRPO", "final accuracy %"]["agreement"] == "ours is lower"
    assert {row["agreement"] for row in models["table"]["rows"][2:]} == {"not run"}


def test_without_a_comparison_the_page_says_so():
    assert "There is no comparison yet" in llm_page.page({}, {})
    with pytest.raises(ValueError, match=r"remarks on toys, expected .* in the evidence \(none\)"):
        llm_page.page({}, {"toys": "Fast."})


def test_comparisons_are_in_the_order_of_their_notes_and_only_pairs_are_in_the_overview():
    row = {"method": "grpo", "metric": "final sampled accuracy %", "mean": 20.0, "n": 3, "iqm_low": None, "iqm_high": None}  # fmt: skip
    timed = {"label": "GRPO", "method": "grpo", "threshold": None, "rollouts": None, "ratio": None, "baseline": True, "reached": 0, "seeds": 3}  # fmt: skip
    alone = {"title": "m on toy:sort", "about": "", "methods": [timed], "table": {"rows": [row]}, "verdicts": [],
             "settings": {}, "provenance": {}, "command": "", "cost": {"seconds": 1.0, "device": "cpu"},
             "progress": {"cells_done": 3, "cells": 3}}  # fmt: skip
    text = llm_page.page({"a": alone, "b": alone, "c": alone}, {"c": "Slow.", "a": "Fast."})
    assert re.findall(r"(?m)^## (\w+):", text) == ["c", "a", "b"]
    assert llm_page.OVERVIEW not in text


def test_the_overview_has_the_tpo_of_highest_final_accuracy():
    ends = {"tpo": 20.0, "tpo:eta=0.5": 40.0, "lpo": 90.0, "grpo": 30.0}
    rows = [
        {"method": name, "metric": "final sampled accuracy %", "mean": x, "n": 3, "iqm_low": None, "iqm_high": None}
        for name, x in ends.items()
    ]  # fmt: skip
    methods = [
        {"label": name.upper(), "method": name, "threshold": 0.3, "rollouts": None, "ratio": None, "baseline": name == "grpo", "reached": 0, "seeds": 3}
        for name in ends
    ]  # fmt: skip
    found = {"title": "m on toy:sort", "about": "", "methods": methods, "table": {"rows": rows}, "verdicts": [],
             "settings": {}, "provenance": {}, "command": "", "cost": {"seconds": 1.0, "device": "cpu"},
             "progress": {"cells_done": 12, "cells": 12}, "panels": []}  # fmt: skip
    line = "| [a](#a-m-on-toysort) | 3 | TPO:ETA=0.5 | GRPO | {} | {} | {} | 40 | 30 | – | – |"
    assert line.format("–", "–", "–") in llm_page.page({"a": found}, {})
    curves = {"grpo": [0.0, 0.1, 0.3], "tpo:eta=0.5": [0.0, 0.2, 0.28], "tpo": [0.0, 0.3, 0.3]}
    series = [{"method": name, "x": [0, 10, 20], "mean": y} for name, y in curves.items()]
    found["panels"] = [{"coords": {"measure": "sampled"}, "series": series}]
    assert line.format("0.6", "1.01", "never") in llm_page.page({"a": found}, {})
    curves["grpo"][-1] = 0.0  # no goal where GRPO does not gain
    assert line.format("–", "–", "–") in llm_page.page({"a": found}, {})


def test_a_comparison_with_former_names_of_options_is_shown_with_current_ones(tmp_path):
    made = {
        "settings": {"model": "m", "task": "toy:sort", "iterations": 1, "skip_silent": False},
        "command": "tpo train --no-skip-silent --compare tpo:eta=0.5:iterations=4,grpo:iterations=4",
        "methods": [
            {"method": "tpo:iterations=4:ties=free", "label": "TPO iterations=4 ties=free"}
        ],
        "verdicts": [{"claim": "TPO iterations=4 ends lower than GRPO (n = 3)"}],
        "tuning": {"option": "iterations", "rows": []},
    }
    comparisons.keep(tmp_path, made, "sort")
    (found,) = comparisons.read(tmp_path).values()
    assert found["settings"] == {
        "model": "m",
        "task": "toy:sort",
        "epochs": 1,
        "skip_zero_gradient": False,
    }
    assert found["command"] == (
        "tpo train --no-skip-zero-gradient --compare tpo:epochs=4:eta=0.5,grpo:epochs=4"
    )
    assert found["methods"] == [
        {"method": "tpo:epochs=4:ties=pooled", "label": "TPO epochs=4 ties=pooled"}
    ]
    assert found["verdicts"] == [{"claim": "TPO epochs=4 ends lower than GRPO (n = 3)"}]
    assert found["tuning"]["option"] == "epochs"

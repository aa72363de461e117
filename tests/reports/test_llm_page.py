"""Pages of kept comparisons of language models, and their index."""

import functools

import numpy as np
import pytest

from tpo.reports import comparisons
from tpo.reports.markdown import comparison_index, comparison_page, front_page, notes, sections
from tpo.reports.markdown.headline import Pair


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
    *_, models = sections.sections([], {}, comparisons.read(tmp_path).values())
    assert models["progress"] == {"cells_done": 2, "cells": 6}
    found = {(row["method"], row["metric"]): row for row in models["table"]["rows"][:2]}
    assert found["TPO", "final accuracy %"]["agreement"] == "agrees"
    assert found["GRPO", "final accuracy %"]["agreement"] == "ours is lower"
    assert {row["agreement"] for row in models["table"]["rows"][2:]} == {"not run"}


def test_without_a_comparison_the_index_says_so():
    assert "There is no comparison yet" in comparison_index.index({}, {}, [])


def compared(ends, baseline="grpo", seeds=3):
    """A comparison of methods whose seeds end at these accuracies."""
    rows = [
        {"method": name, "metric": "final sampled accuracy %", "mean": float(np.mean(x)), "n": len(x), "values": x,
         "iqm_low": None, "iqm_high": None}
        for name, x in ends.items()
    ]  # fmt: skip
    methods = [
        {"label": name.upper(), "method": name, "threshold": 0.3, "rollouts": None, "ratio": None,
         "baseline": name == baseline, "reached": 0, "seeds": seeds}
        for name in ends
    ]  # fmt: skip
    return {"title": "m on toy:sort", "about": "", "methods": methods, "table": {"rows": rows}, "verdicts": [],
            "settings": {}, "provenance": {}, "command": "", "cost": {"seconds": 1.0, "device": "cpu"},
            "progress": {"cells_done": 3, "cells": 3}, "panels": []}  # fmt: skip


def test_a_comparison_without_a_pair_is_in_the_index_without_numbers():
    alone = {"a": compared({"grpo": [20.0] * 3})}
    text = comparison_index.index(alone, {}, [notes.Group("All", "", ("a",))])
    assert "| [a: m on toy:sort](a.md) |  | – | – | – | – | – |" in text
    assert "Both sides" not in comparison_page.page("a", alone["a"], notes.Note())


def test_a_page_opens_with_its_question_and_the_best_of_both_sides():
    found = compared(
        {
            "tpo": [20.0] * 3,
            "tpo:eta=0.5": [39.0, 40.0, 41.0],
            "lpo": [90.0] * 3,
            "grpo": [30.0] * 3,
        }
    )
    note = notes.Note("Sorting", "Who sorts?", "TPO.", "Fast.")
    text = comparison_page.page("a", found, note)
    assert text.startswith(
        "# Sorting\n\n**Question.** Who sorts?\n\n**Answer.** TPO.\n\n|  | setting |"
    )
    # 10 ± t(0.975; 2) · 1 / sqrt(3) = 10 ± 4.303 · 0.577
    gap = "**10.0** (7.5 to 12.5)"
    assert "| TPO | eta 0.5 | 40 | – | – | – |" in text
    assert f"| TPO - GRPO |  | {gap} |  |  |  |" in text
    index = comparison_index.index({"a": found}, {"a": note}, [notes.Group("All", "", ("a",))])
    assert f"| [Sorting](a.md) | *Who sorts?* TPO. | 3 | 40 | 30 | {gap} | – |" in index


def test_relative_rollouts_are_read_from_the_mean_curves():
    curves = {"grpo": [0.0, 0.1, 0.3], "tpo": [0.0, 0.2, 0.28]}
    found = compared({"tpo": [28.0] * 3, "grpo": [30.0] * 3})
    series = [{"method": name, "x": [0, 10, 20], "mean": y} for name, y in curves.items()]
    found["panels"] = [{"coords": {"measure": "sampled"}, "series": series}]
    assert "| TPO | defaults | 28 | 0.6 | 1.01 | never |" in comparison_page.page(
        "a", found, notes.Note()
    )
    curves["grpo"][-1] = 0.0  # no goal where GRPO does not gain
    assert "| TPO | defaults | 28 | – | – | – |" in comparison_page.page("a", found, notes.Note())


def test_the_front_page_has_numbers_of_the_evidence_or_fails():
    known = {"a": compared({"tpo": [28.0, 30.0], "grpo": [20.0, 20.0]})}
    fill = functools.partial(
        front_page.page, kinds=front_page.placeholders([], known, {"a": notes.Note("Sums")}, [])
    )
    assert fill("{{final a; tpo}}, {{significant}}") == "29.0, 0 of 1"
    assert fill("{{gap a; grpo; tpo}}") == "-9.0 (-21.7 to 3.7)"  # ± 12.706 · 1
    for wrong in (
        "{{final a; lpo}}",
        "{{final b; tpo}}",
        "{{lab terminal; H=7; TPO}}",
        "{{mean a}}",
    ):
        with pytest.raises(ValueError, match=f"{wrong[:8]}.* has no number in the evidence"):
            fill(wrong)


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


UNCLIPPED = "tpo:max_grad_norm=0.0"


def test_tpos_side_is_the_one_of_the_plan():
    """The clipped TPO ends higher; a plan that names the unclipped one gets that."""
    found = compared({"tpo": [40.0, 42.0], UNCLIPPED: [30.0, 32.0], "grpo": [20.0, 20.0]})
    assert Pair.of(found).tpo == "tpo"
    assert Pair.of(found, "max_grad_norm=0.0").tpo == UNCLIPPED
    with pytest.raises(ValueError, match="no TPO of the comparison has"):
        Pair.of(found, "ties=pooled")
    note = notes.note("# Sums\n\nTPO's side: max_grad_norm=0.0\n\nRemarks.")
    assert (note.own_side, note.remarks) == ("max_grad_norm=0.0", "Remarks.")
    page = comparison_page.page("a", found, note)
    assert "| TPO | no gradient clipping | 31 |" in page
    assert "TPO with no gradient clipping, as planned" in page
    index = comparison_index.index({"a": found}, {"a": note}, [notes.Group("All", "", ("a",))])
    assert "| 2 | 31 | 20 |" in index

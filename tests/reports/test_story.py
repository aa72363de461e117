"""The answer of a study in a sentence, names in words, and which panels and lines are shown first."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from support import samples
from support.report_command import report_command
from tpo.reports import panels, story, styles
from tpo.reports.html.sections import overview, study_section
from tpo.reports.html.tables import numbers
from tpo.reports.page_data import prepared

EVIDENCE = Path(__file__).parents[2] / "docs" / "evidence"


def rows(metric: str, *values: tuple[dict[str, Any], str, Any]) -> dict[str, Any]:
    found = [{"coords": c, "method": method, metric: value} for c, method, value in values]
    return {"table": {"rows": found}, "threshold": 0.01, "x": {"label": "episode"}}


def test_one_setting_is_a_ranking_in_which_the_told_method_takes_no_part() -> None:
    found = rows("last100", ({}, "PPO", 12.5), ({}, "TPO", 0.5), ({}, "CE", 0.1), ({}, "DG", 3.0))
    assert story.answer(found) == ["Lowest mean final error: TPO 0.5%, then DG 3% and PPO 12.5%."]


def test_equal_methods_are_named_together_and_those_that_never_arrive_last() -> None:
    found = rows(
        "steps_to_threshold",
        ({}, "TPO, 4 epochs", 98), ({}, "DG", 98), ({}, "GRPO", 1050), ({}, "PPO", "never"),
    )  # fmt: skip
    assert story.answer(found) == [
        "First below 1% mean error: TPO (4 epochs) and DG after 98 episodes, then GRPO after 1,050; PPO never."
    ]


def test_several_settings_are_counted_and_a_tie_counts_for_both() -> None:
    cells = [(2, "TPO", 1.0), (2, "DG", 1.0), (4, "TPO", 1.0), (4, "DG", 2.0)]
    found = rows("last100", *(({"V": v}, method, value) for v, method, value in cells))
    assert story.answer(found) == [
        "TPO has the lowest mean final error in 2 of 2 settings, DG in 1."
    ]


def test_a_study_of_one_method_compares_its_last_axis() -> None:
    found = rows("last100", ({"eta": 1}, "TPO", 0.5), ({"eta": 4}, "TPO", 0.7))
    assert story.answer(found) == ["Lowest mean final error: eta = 1 0.5%, then eta = 4 0.7%."]


def test_published_numbers_are_counted_by_their_verdict() -> None:
    verdicts = ["too noisy"] * 40
    found = rows("iqm", *(({"V": v}, "TPO", 0.5) for v in range(40)))
    for row, verdict in zip(found["table"]["rows"], verdicts, strict=True):
        row |= {"published": "6.9", "agreement": verdict}
    assert story.answer(found) == ["Published numbers, 40 in all: 40 too noisy to tell."]
    found["table"]["rows"][0]["agreement"] = "agrees"
    found["table"]["rows"][1]["agreement"] = None
    assert story.answer(found) == [
        "Published numbers, 40 in all: 1 agree, 38 too noisy to tell, 1 with too few seeds."
    ]


def test_a_study_about_speed_is_answered_by_its_seeds() -> None:
    found = rows("last100", ({}, "TPO", 0.5), ({}, "GRPO", 0.1), ({}, "DG", 9))
    steps = [(4, 56, "never"), (3, 98, 60), (1, "never", "never")]
    for row, (reached, median, mean) in zip(found["table"]["rows"], steps, strict=True):
        row |= {"n": 4, "reached": reached, "steps_median": median, "steps_to_threshold": mean}
    found["table"]["rows"] += found["table"]["rows"]  # as for two published numbers
    assert story.answer(found | {"asks": "steps"}) == [
        "First below 1% error (median seed): TPO after 56 episodes, then GRPO after 98; DG never.",
        "Seeds that reached 1%: TPO on 4 of 4, GRPO on 3 of 4 and DG on 1 of 4.",
        "Lowest mean final error: GRPO 0.1%, then TPO 0.5% and DG 9%.",
    ]
    assert (
        story.answer(found)[1]
        == "First below 1% mean error: GRPO after 60 episodes; TPO and DG never."
    )


def test_an_undecided_claim_says_why_the_lowest_mean_is_not_enough() -> None:
    cells = [(2, "TPO", 1.0), (2, "DG", 1.5), (4, "TPO", 1.0), (4, "DG", 2.0)]
    found = rows("last100", *(({"V": v}, method, value) for v, method, value in cells))
    claim = {
        "claim": "TPO is lowest",
        "status": "undecided",
        "against": [{"settings": 2, "hold": 1}],
    }
    assert len(story.answer(found | {"asks": "gradient_norm", "verdicts": [claim]})) == 1
    assert story.answer(found | {"asks": "end", "verdicts": [claim]}) == [
        "TPO has the lowest mean final error in 2 of 2 settings.",
        "A lower mean can be chance: “TPO is lowest” is undecided, since 1 of 2 comparisons hold at 95%.",
    ]


def test_two_seeds_are_too_few_for_a_verdict() -> None:
    found = rows("last100", ({}, "TPO", 0.5), ({}, "DG", 0.7))
    for row in found["table"]["rows"]:
        row["n"] = 2
    assert story.answer(found)[-1] == "2 seeds: too few for a verdict, which takes at least 3."


def test_nothing_finished_has_no_answer() -> None:
    found = rows("last100", ({}, "TPO", 0.5), ({}, "DG", 0.7))
    for row in found["table"]["rows"]:
        row["done"] = False
    assert story.answer(found) == []


def test_labels_are_words_without_what_all_share_and_claims_use_them() -> None:
    study = samples.terminal()
    lines = study["panels"][0]["series"][:2]
    lines[0]["label"], lines[1]["label"] = "TPO epochs=4 eta=0.5", "GRPO epochs=4"
    study["panels"], study["profiles"] = [{"title": "reward", "series": lines}], []
    study["verdicts"][0]["claim"] = "TPO epochs=4 eta=0.5 ends below GRPO epochs=4"
    found = prepared(study)
    assert [s["label"] for s in found["panels"][0]["series"]] == ["TPO, eta 0.5", "GRPO"]
    assert found["shared"] == ["4 epochs"]
    assert found["verdicts"][0]["claim"] == "TPO (eta 0.5) ends below GRPO"
    assert found["panels"][0]["title"] == "reward of the training rollouts"


def test_labels_that_would_be_alike_stay_as_they_are() -> None:
    study = samples.terminal()
    lines = study["panels"][0]["series"][:2]
    lines[0]["label"], lines[1]["label"] = "TPO epochs=4", "TPO, epochs 4"
    study["panels"], study["profiles"] = [{"title": "", "series": lines}], []
    labels = [s["label"] for s in prepared(study)["panels"][0]["series"]]
    assert labels == ["TPO epochs=4", "TPO, epochs 4"]


def test_a_sweep_is_shown_by_its_bars_and_else_by_its_first_measure() -> None:
    error, norm = {"label": "error"}, {"label": "gradient norm"}
    curves = [{"y": error}, {"y": norm}, {"y": error}]
    assert panels.main_panels(curves) == [True, False, True]
    bars = {"kind": "bars", "x": {"label": "K"}, "y": error}
    assert panels.main_panels([*curves, bars]) == [False, False, False, True]


def test_among_many_lines_a_known_method_keeps_its_solid_line() -> None:
    many = [*((f"x{i}", f"X{i}") for i in range(20)), ("grpo", "GRPO"), ("tpo", "TPO")]
    found = styles.css_classes(many)
    assert (found["TPO"], found["GRPO"]) == ("m0 d0", "m1 d0")
    assert len(set(found.values())) == len(many)


def test_sentences_that_three_studies_share_are_told_apart() -> None:
    texts = ["A model. Own one.", "A model. Own two.", "A model. Own three."]
    assert story.common_sentences(texts) == {"A model."}


def test_a_study_opens_with_its_question_and_how_it_was_asked_is_told_on_demand() -> None:
    about = "Are two better than one? Both are trained alike."
    assert story.question({"about": about}) == (
        "Are two better than one?",
        "Both are trained alike.",
    )
    assert story.question({"question": "Which wins?", "about": about}) == ("Which wins?", about)
    shared = {
        "about": "Bits are reversed. Both are trained alike.",
        "common": ["Bits are reversed."],
    }
    assert story.question(shared) == ("", "Both are trained alike.")
    study = prepared({**samples.terminal(), "question": "Which wins?"})
    opening, _, details = study_section(study | {"anchor": "a"}, 0).partition("Set-up, settings")
    assert "Which wins?" in opening
    assert study["about"] not in opening
    assert study["about"] in details


def test_the_overview_says_first_what_tpo_is_and_what_was_asked() -> None:
    first, second = samples.terminal(), samples.talk() | {"verdicts": []}
    page = overview(
        [prepared(one) | {"anchor": "a"} for one in (first | {"question": "Which wins?"}, second)]
    )
    defined, asked = page.index("turns the scores of a group"), page.index("Asked here: ")
    assert defined < asked < page.index('class="facts"') < page.index("<em>Which wins?</em>")
    assert "1 of 2 test claims" in page


def test_the_metrics_of_a_language_model_are_columns() -> None:
    def row(method: str, metric: str, n: int, value: float) -> dict[str, Any]:
        return {"coords": {}, "method": method, "metric": metric, "n": n, "iqm": value,
                "iqm_low": value - 1, "iqm_high": value + 1}  # fmt: skip

    found = [
        row("TPO", "final sampled accuracy %", 3, 50.0),
        row("TPO", "rollouts to 40% if reached", 2, 900.0),
        row("GRPO", "final sampled accuracy %", 3, 45.0),
        row("GRPO", "rollouts to 40% if reached", 0, 0.0),
    ]
    study = {"name": "llm", "table": {"rows": found}}
    assert story.answer(study) == [
        "Highest final accuracy of samples for held-out prompts: TPO 50% [49, 51], then GRPO 45% [44, 46]."
    ]
    html = numbers(study)
    assert html is not None
    assert html.count("<tr>") == 3
    assert ">final accuracy %, samples<" in html
    assert ">900 [899, 901] (2 of 3 seeds)<" in html
    assert ">never<" in html


def test_a_kept_comparison_of_language_models_is_reported_by_its_file(tmp_path: Path) -> None:
    files = [str(EVIDENCE / "llm" / f"{name}.json") for name in ("small_ties", "small_equal")]
    assert report_command(*files, "--out", str(tmp_path / "r.html")) == 0
    page = (tmp_path / "r.html").read_text(encoding="utf-8")
    for anchor in ("study-llm-comparison", "study-llm-comparison-2"):
        assert page.count(f'id="{anchor}"') == 1
    assert "TPO, learning rate 2e-4, pooled ties" in page
    assert "learning_rate=" not in page.split('<script type="application/json"')[0].split("<pre")[0]


def test_a_file_that_is_no_comparison_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text("{}")
    with pytest.raises(ValueError, match=r"x\.json holds no comparison of language models"):
        report_command(str(tmp_path / "x.json"))

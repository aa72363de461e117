"""What a comparison concludes: rollouts to an accuracy, ties, and problems of its runs."""

from pathlib import Path

import pytest

pytest.importorskip("trl")

from comparison_runs import write_complete_run

from tpo.cli import main
from tpo.llm import TargetPolicyConfig, summary
from tpo.llm.comparison.method import methods
from tpo.llm.comparison.plan import Plan
from tpo.llm.runs.artifacts import read_lines, write_lines
from tpo.llm.runs.recipe import Recipe
from tpo.reports.markdown.comparison_page import page
from tpo.reports.markdown.notes import Note
from tpo.storage.files import read_json, write_json


def test_rollouts_to_a_threshold_by_hand(tmp_path: Path) -> None:
    """GRPO goes from .1 to 1.4/3, and with two epochs to 1.2/3, so methods are timed to .1 + .9 x 1.1/3 = .43.

    GRPO's mean goes from .8/3 at 16 rollouts to 1.4/3 at 32, and is at .43 after 16 + 16 (.43 - .8/3)/.2 = 29.07;
    its third seed never is, and counts with 40. TPO's goes from .1 to .5 over the first 16, and is at .43 after
    16 x .33/.4 = 13.2, whatever its epochs per batch.
    """
    recipe = Recipe("m", "gsm8k", batches=4, prompts=2, group_size=4, out=str(tmp_path))
    plan = Plan(recipe, methods("tpo:epochs=2,grpo:epochs=2,grpo"), 3)
    tpo, worse, grpo = plan.methods
    for seed, curve in enumerate([[0.1, 0.3, 0.5], [0.1, 0.3, 0.5], [0.1, 0.2, 0.4]]):
        write_complete_run(plan.run(grpo, seed), curve)
        write_complete_run(plan.run(worse, seed), [0.1, 0.2, 0.6 if seed == 0 else 0.3])
        write_complete_run(plan.run(tpo, seed), [0.1, 0.5, 0.6])
    write_json(tmp_path / "comparison.json", {"plan": plan.to_dict()})
    found = summary(tmp_path)
    own, other, base = found["methods"]
    assert [one["baseline"] for one in found["methods"]] == [False, False, True]
    assert (own["threshold"], own["rollouts"]) == (pytest.approx(0.43), pytest.approx(13.2))
    assert base["rollouts"] == pytest.approx(16 + 16 * (0.43 - 0.8 / 3) / 0.2)
    assert (own["ratio"], base["ratio"]) == (pytest.approx(13.2 / base["rollouts"]), 1)
    assert (own["reached"], other["reached"], base["reached"], base["seeds"]) == (3, 1, 2, 3)
    rows = {(r["method"], r["metric"]): r for r in found["table"]["rows"]}
    assert rows["grpo", "rollouts to 43.0% if reached"]["values"] == pytest.approx([26.4, 26.4])
    assert rows["grpo", "informative groups %"]["mean"] == 75
    assert rows["grpo", "mean sampled accuracy %"]["values"] == pytest.approx([30, 30, 70 / 3])
    assert rows["grpo", "peak memory GB"]["mean"] == 2
    text = page("by_hand", found, Note())
    assert "| TPO | 2 epochs | 60 | 70 | 0.423 | 0.454 | 0.458 |" in text
    assert "| GRPO | defaults | 46.7 | 56.7 | 1 | 1 | 1 |" in text
    assert "| rollouts to 43.0% | relative to GRPO |" in text
    assert "| 13 (3 of 3) | 0.454 |" in text
    assert "| 29 (2 of 3) | 1 |" in text
    verdicts = found["verdicts"]
    # three seeds, one far out
    assert [v["status"] for v in verdicts[:2]] == ["undecided", "undecided"]
    assert len(verdicts) == 4
    detail = verdicts[0]["detail"]
    assert (
        "13 rollouts (median, 3 of 3 seeds get there) against GRPO 26 rollouts (median, 2 of 3"
        in detail
    )
    assert "40% (median 40%) against GRPO 53.3% (median 50%)" in verdicts[1]["detail"]


@pytest.mark.parametrize(
    ("flat", "passed", "uninformative"),
    [
        ([0] * 8 + [1] * 2, 0.0, 2),
        ([1] * 10, 0.0, 10),
        ([0] * 9 + [1], 0.0, None),  # a tenth is not reported
        ([1] * 9 + [0.9], 0.0, None),
        ([0] * 2 + [1] * 8, 1.0, None),  # nothing to learn, since all is solved
    ],
)
@pytest.mark.parametrize("epochs", [1, 2])
def test_a_run_that_had_nothing_left_to_learn_from_is_named(
    tmp_path: Path, flat: list[float], passed: float, uninformative: int | None, epochs: int
) -> None:
    recipe = Recipe("m", "gsm8k", batches=10, prompts=2, group_size=4, out=str(tmp_path))
    plan = Plan(recipe, methods(f"tpo,grpo:epochs={epochs}"))
    for one in plan.methods:
        write_complete_run(plan.run(one, 0), [0.1, 0.3, 0.5])
    collapsed = plan.run(plan.methods[1], 0)
    log = collapsed.folder / "log.jsonl"
    usual = read_lines(log)[0] | {"groups/all_pass": passed}
    rows = [
        {**usual, "step": i * epochs + 1, "groups/zero_variance": x} for i, x in enumerate(flat)
    ]
    write_lines(log, rows)
    write_json(tmp_path / "comparison.json", {"plan": plan.to_dict()})
    problem = f"{collapsed.title}: no informative group in the last {uninformative} of 10 rollout batches."
    about = summary(tmp_path)["about"]
    assert about.endswith(problem) if uninformative else "informative" not in about


def test_problems_of_a_run_are_named_with_its_numbers(tmp_path: Path) -> None:
    recipe = Recipe("m", "gsm8k", batches=4, prompts=2, group_size=4, out=str(tmp_path))
    plan = Plan(recipe, methods("tpo,grpo"))
    sound, troubled = (plan.run(one, 0) for one in plan.methods)
    for run in (sound, troubled):
        write_complete_run(run, [0.1, 0.3, 0.5])
    rows = [
        {
            **row,
            "skipped_steps": float(row["step"] > 2),
            "reward_failures": 0.25 * (row["step"] == 1),
        }
        for row in read_lines(troubled.folder / "log.jsonl")
    ]
    write_lines(troubled.folder / "log.jsonl", rows)
    result = read_json(troubled.folder / "result.json")
    result["evaluations"] = [{**row, "failures": 2} for row in result["evaluations"]]
    write_json(troubled.folder / "result.json", result)
    write_json(tmp_path / "comparison.json", {"plan": plan.to_dict()})
    about = summary(tmp_path)["about"]
    assert about.endswith(
        "grpo, seed 0: 2 of 4 steps skipped, their gradient not finite; 6.25% of completions not scored; "
        "6 held-out completions not scored, which count as not solved."
    )
    assert "tpo, seed 0" not in about
    assert about.startswith("Which method learns gsm8k with the fewest")


def test_how_many_steps_were_clipped(tmp_path: Path) -> None:
    """Each by the limit of its method, TRL's own by default; 0 is none."""
    recipe = Recipe("m", "gsm8k", batches=4, prompts=2, group_size=4, out=str(tmp_path))
    assert recipe.max_grad_norm == TargetPolicyConfig("x", bf16=False).max_grad_norm
    plan = Plan(recipe, methods("tpo,tpo:max_grad_norm=5,tpo:max_grad_norm=0"))
    for method in plan.methods:
        write_complete_run(plan.run(method, 0), [0.1, 0.3, 0.5])
    write_json(tmp_path / "comparison.json", {"plan": plan.to_dict()})
    rows = [r for r in summary(tmp_path)["table"]["rows"] if r["metric"] == "clipped steps %"]
    assert [row["mean"] for row in rows] == [100, 0, 0]


def test_a_complete_run_is_read_from_its_result(tmp_path: Path) -> None:
    """Whatever became of the files that it was made of: here they are empty."""
    recipe = Recipe("m", "gsm8k", batches=4, prompts=2, group_size=4, out=str(tmp_path))
    plan = Plan(recipe, methods("tpo,grpo"))
    for method in plan.methods:
        write_complete_run(plan.run(method, 0), [0.1, 0.3, 0.5])
    write_json(tmp_path / "comparison.json", {"plan": plan.to_dict()})
    before = summary(tmp_path)
    write_lines(plan.run(plan.methods[0], 0).folder / "evaluations.jsonl", [])
    assert summary(tmp_path) == before


def test_a_tie_is_no_win(tmp_path: Path) -> None:
    recipe = Recipe("m", "gsm8k", batches=4, prompts=2, group_size=4, out=str(tmp_path))
    plan = Plan(recipe, methods("tpo,grpo"), 3)
    for run in (plan.run(one, seed) for one in plan.methods for seed in range(3)):
        write_complete_run(run, [0.1, 0.3, 0.5])
    write_json(tmp_path / "comparison.json", {"plan": plan.to_dict()})
    assert [v["status"] for v in summary(tmp_path)["verdicts"]] == ["undecided", "undecided"]


def test_nothing_has_begun(tmp_path: Path) -> None:
    """As when tuning failed for every value."""
    plan = Plan(Recipe("m", "gsm8k", batches=4, out=str(tmp_path)), methods("tpo,grpo"))
    write_json(tmp_path / "comparison.json", {"plan": plan.to_dict()})
    found = summary(tmp_path)
    assert found["progress"] == {"cells_done": 0, "cells": 2}
    assert [series["x"] for series in found["panels"][0]["series"]] == [[], []]
    assert main(["report", str(tmp_path)]) == 0


@pytest.mark.parametrize("curve", [[0.0, 0.0, 0.0], [0.5, 0.7, 0.4]], ids=["zero", "falls"])
def test_a_baseline_that_gains_nothing_is_no_goal(tmp_path: Path, curve: list[float]) -> None:
    recipe = Recipe("m", "gsm8k", batches=4, prompts=2, group_size=4, out=str(tmp_path))
    plan = Plan(recipe, methods("tpo,grpo"))
    for one in plan.methods:
        write_complete_run(plan.run(one, 0), curve)
    write_json(tmp_path / "comparison.json", {"plan": plan.to_dict()})
    found = summary(tmp_path)
    assert not any("rollouts" in verdict["claim"] for verdict in found["verdicts"])
    assert [one["threshold"] for one in found["methods"]] == [None, None]
    assert not any("rollouts to" in row["metric"] for row in found["table"]["rows"])

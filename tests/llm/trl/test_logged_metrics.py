"""What the trainer logs and warns about."""

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("trl")
import torch

import tpo
from support import tiny_model
from tpo.llm.trl.metrics import fit_metrics, step_metrics
from tpo.llm.trl.rollout_batch import RolloutBatch


@pytest.mark.parametrize(("ties", "kl"), [("anchored", 0.2231436), ("pooled", 0.0)])
def test_a_move_within_an_outcome_is_no_misfit_with_pooled_ties(ties: str, kl: float) -> None:
    """All four candidates fail. From p_old = 1/4 each to (.4, .4, .1, .1): KL(1/4‖p) = log(1/4) - log(.04)/2 = .2231436."""
    old = torch.log(torch.full((1, 4, 1), 0.25))
    moved = torch.log(torch.tensor([0.4, 0.4, 0.1, 0.1])).reshape(1, 4, 1)
    group = tpo.Groups(old, torch.zeros(1, 4), valid=torch.ones(1, 4, dtype=torch.bool))
    rollouts = RolloutBatch(tpo.objective("tpo", ties=ties), group, 0.0, 0, 0)
    found = fit_metrics(rollouts, rollouts.compute_fit(moved), None, 0.5)
    assert found["target/kl"].item() == pytest.approx(kl, abs=1e-6)


def test_what_is_logged(tmp_path: Path) -> None:
    """One prompt solved by all, one by none, one by half: shares by hand."""
    by_prompt: dict[str, int] = {}

    def reward(prompts: list[str], completions: list[str], **_: Any) -> list[float]:
        scores = []
        for prompt in prompts:
            seen = by_prompt[prompt] = by_prompt.get(prompt, 0) + 1
            kind = list(by_prompt).index(prompt) % 4
            scores.append([1.0, 0.0, float(seen % 2), float(seen % 2)][kind])
        return scores

    made = tiny_model.trainer(tmp_path, reward, max_steps=1, gradient_accumulation_steps=4)
    made.train()
    row = made.state.log_history[0]
    assert row["groups/zero_variance"] == 0.5
    assert row["groups/all_fail"] == row["groups/all_pass"] == 0.25
    assert row["pass@4"] == 0.75
    # scores ±1 after standardising: q is e/(2e + 2/e) on each of two winners, and p is uniform
    assert row["target/mass_on_winners"] == pytest.approx(0.8807971, abs=1e-5)
    # per mixed group KL(q‖uniform) = log 4 - H(q) = 0.3278082; half of the groups are mixed
    assert row["target/kl"] == pytest.approx(0.3278082 / 2, abs=1e-5)
    assert row["target/effective_candidates"] == pytest.approx(4.0, abs=1e-4)
    assert row["reward_time"] > 0
    assert row["entropy"] > 0


def test_the_sum_score_on_long_completions_is_warned_about(tmp_path: Path) -> None:
    made = tiny_model.trainer(
        tmp_path, score="sum", max_completion_length=30, patience=3, max_steps=5, learning_rate=1e-6
    )
    with pytest.warns(
        UserWarning, match=r"effective candidates now.*score='sum'.*Set score='ratio'"
    ):
        made.train()


def test_groups_that_are_not_informative_are_warned_about(tmp_path: Path) -> None:
    def nothing(completions: list[str], **_: Any) -> list[float]:
        return [0.0] * len(completions)

    made = tiny_model.trainer(tmp_path, nothing, patience=2, max_steps=2)
    words = "most groups were not informative.*nearly all fail, and .* reach the token limit.*easier prompts"
    with pytest.warns(UserWarning, match=words):
        made.train()


def test_groups_of_excluded_completions_are_not_informative(tmp_path: Path) -> None:
    """Every completion is truncated: nothing is solved, and the warning says why."""
    made = tiny_model.trainer(
        tmp_path, drop_truncated_completions=True, max_completion_length=1, patience=2, max_steps=2
    )
    with pytest.warns(
        UserWarning, match="100% of completions are truncated.*raise max_completion_length"
    ):
        made.train()
    row = made.state.log_history[0]
    assert row["groups/zero_variance"] == row["groups/excluded"] == 1
    assert row["pass@4"] == row["groups/all_pass"] == row["groups/all_fail"] == 0


def test_tokens_that_lpo_clips_are_logged(tmp_path: Path) -> None:
    """Ratios 1.5 and .5 lie outside 1 ± .2, the ratio 1.1 does not; one token of two candidates each."""
    old = torch.zeros(1, 4, 1)
    now = torch.log(torch.tensor([1.5, 1.1, 0.5, 1.0])).reshape(1, 4, 1)
    groups = tpo.Groups(
        old, torch.tensor([[1.0, 0, 0, 1]]), torch.ones(1, 4, 1, dtype=torch.bool),
        valid=torch.ones(1, 4, dtype=torch.bool),
    )  # fmt: skip
    rollouts = RolloutBatch(tpo.objective("lpo", score="ratio", clip=0.2), groups, 0.0, 0, 0)
    fit = rollouts.compute_fit(now)
    assert fit.coefficients[0, [0, 2], 0].tolist() == [0, 0], "a clipped token has no gradient"
    collectives = tiny_model.trainer(tmp_path).collectives
    mask = torch.ones(4, 1, dtype=torch.bool)
    found = step_metrics(rollouts, fit, torch.arange(4), mask, collectives)
    assert (found["clip_ratio/low_mean"], found["clip_ratio/high_mean"]) == (0.25, 0.25)
    assert found["clip_ratio/region_mean"] == 0.5

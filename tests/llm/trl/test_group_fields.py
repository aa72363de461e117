"""Greedy completions: one per prompt, the baseline of `remax`."""

import zlib
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("trl")
import torch

from support import tiny_model
from support.exact_gradient import Checked


def trained(folder: Path, reward: Any = tiny_model.reward, **changes: Any) -> Checked:
    options = {"objective": "remax", "max_steps": 2, "learning_rate": 1e-3, **changes}
    trainer = Checked(
        tiny_model.model(),
        reward,
        tiny_model.config(folder, **options),
        train_dataset=tiny_model.prompts(),
        processing_class=tiny_model.tokenizer(),
    )
    trainer.train()
    assert len(trainer.errors) == trainer.args.max_steps
    return trainer


@pytest.mark.parametrize("fast", [True, False], ids=["fast sampler", "generate"])
def test_the_baseline_is_the_score_of_a_greedy_completion(tmp_path: Path, fast: bool) -> None:
    """Compared with a decode by hand, in float64; a group is split over micro-batches."""
    seen: list[int] = []

    def counted(completions: list[str], **more: Any) -> list[float]:
        seen.append(len(completions))
        return [zlib.crc32(text.encode()) / 2**32 for text in completions]

    layout = {"per_device_train_batch_size": 2, "gradient_accumulation_steps": 8}
    trainer = trained(tmp_path, counted, fast_sampling=fast, **layout)
    greedy = trainer._batches[-1]["greedy"]
    assert trainer.rollouts.groups.baseline is not None
    assert torch.equal(trainer.rollouts.groups.baseline, greedy.float())
    assert len(set(greedy.tolist())) > 1
    assert max(trainer.errors) < 1e-5
    G = len(greedy)
    assert seen[:2] == [G, 4 * G]  # one extra completion per prompt
    assert trainer.state.log_history[0]["completions/mean_length"] == pytest.approx(
        sum(sum(row["mask"]) for row in trainer._batches[0]["rows"]) / (4 * G)
    )


@pytest.mark.filterwarnings("ignore:a completion could not be scored:RuntimeWarning")
def test_a_group_whose_greedy_completion_has_no_score_is_left_out(tmp_path: Path) -> None:
    calls = 0

    def missing(completions: list[str], **_: Any) -> list[float | None]:
        nonlocal calls
        calls += 1
        found: list[float | None] = [*tiny_model.reward(completions)]
        return [None, *found[1:]] if calls == 1 else found

    made = tiny_model.trainer(tmp_path, missing, objective="remax", max_steps=1)
    made.train()
    valid = made.rollouts.groups.valid
    assert valid is not None
    assert valid.any(-1).tolist() == [False, True]


def test_samplers_without_greedy_completions_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRL_EXPERIMENTAL_SILENCE", "1")

    def rollouts(prompts: Any, trainer: Any) -> Any:
        raise AssertionError

    with pytest.raises(ValueError, match="'remax' takes a greedy.*leave rollout_func out.*'rloo'"):
        Checked(
            tiny_model.model(),
            tiny_model.reward,
            tiny_model.config(tmp_path, objective="remax"),
            train_dataset=tiny_model.prompts(),
            processing_class=tiny_model.tokenizer(),
            rollout_func=rollouts,
        )


def test_annealed_options_are_told_the_progress(tmp_path: Path) -> None:
    """Three steps of one batch each: 0, 1/3 and 2/3 are done when a batch is sampled."""
    seen = []

    class Watched(tiny_model.TargetPolicyTrainer):
        def _generate_and_score_completions(self, inputs: Any) -> Any:
            output = super()._generate_and_score_completions(inputs)
            seen.append(self.rollouts.groups.progress)
            return output

    trainer = Watched(
        tiny_model.model(),
        tiny_model.reward,
        tiny_model.config(
            tmp_path, objective="tpo", objective_options={"eta_final": 0.1}, max_steps=3
        ),
        train_dataset=tiny_model.prompts(),
        processing_class=tiny_model.tokenizer(),
    )
    trainer.train()
    assert [x.unique().tolist() for x in seen] == [pytest.approx([i / 3]) for i in range(3)]

"""`correct`: weights between the engine that samples and the trainer, from the log-probs that the engine reports."""

import zlib
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("trl")
import torch

from support import tiny_model
from support.exact_gradient import Checked


def rollouts(prompts: list[str], trainer: Any) -> dict[str, Any]:
    """Random completions of one to six tokens, with log-probs around those of the tiny model."""
    made = torch.Generator().manual_seed(trainer.state.global_step)
    lengths = torch.randint(1, 7, (len(prompts),), generator=made).tolist()
    return {
        "prompt_ids": [trainer.processing_class(p)["input_ids"] for p in prompts],
        "completion_ids": [torch.randint(0, 90, (n,), generator=made).tolist() for n in lengths],
        "logprobs": [(torch.randn(n, generator=made) - 4.5).tolist() for n in lengths],
    }


def by_text(completions: list[str], **_: Any) -> list[float]:
    return [zlib.crc32(text.encode()) / 2**32 for text in completions]


def made(folder: Path, rollout_func: Any = rollouts, **changes: Any) -> Checked:
    return Checked(
        tiny_model.model(),
        by_text,
        tiny_model.config(folder, **{"learning_rate": 1e-3, **changes}),
        train_dataset=tiny_model.prompts(),
        processing_class=tiny_model.tokenizer(),
        rollout_func=rollout_func,
    )


@pytest.mark.parametrize(
    ("objective", "correct"),
    [("grpo", "tis@1.5"), ("tpo", "icepop@0.3-2"), ("tpo", "icepop_sequence@0.7-1.4")],
)
def test_the_gradient_is_corrected_wherever_rows_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, objective: str, correct: str
) -> None:
    """Split groups and two epochs; the reference knows the reported log-probs, and no trainer."""
    monkeypatch.setenv("TRL_EXPERIMENTAL_SILENCE", "1")
    trainer = made(
        tmp_path, objective=objective, objective_options={"correct": correct}, num_iterations=2, max_steps=2,
        per_device_train_batch_size=2, gradient_accumulation_steps=8,
    )  # fmt: skip
    trainer.train()
    assert len(trainer.errors) == 2
    assert max(trainer.errors) < 1e-5
    plain, groups = trainer.objective.inner, trainer.rollouts.groups
    prepared = trainer.objective.prepare(groups)
    c = trainer.objective.coefficients(groups.log_probs_old, prepared)
    without = plain.coefficients(groups.log_probs_old, plain.prepare(groups))
    assert (c - without).abs().max() > 0.01 * without.abs().max()
    names = trainer.state.log_history[0]
    assert ("target/kl" in names) is (objective == "tpo")  # metrics see through the correction
    assert ("clip_ratio/low_mean" in names) is (objective == "grpo")


def test_a_sampler_without_log_probs_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="holds correct.*there are none: set use_vllm"):
        made(tmp_path, None, objective_options={"correct": "tis"})


def test_tpo_train_refuses_it_without_vllm() -> None:
    from tpo.llm.runs.recipe import recipe

    given = {"model": "m", "task": "toy:copy", "objective_options": {"correct": "tis"}}
    with pytest.raises(ValueError, match="holds correct.*set vllm, or leave correct out"):
        recipe(given)
    assert recipe(given | {"vllm": True}).objective_options == {"correct": "tis"}


def test_a_method_of_a_comparison_may_be_corrected() -> None:
    from tpo.llm.comparison.method import method

    assert method("grpo:correct=tis@2").options == (("correct", "tis@2"),)
    with pytest.raises(ValueError, match="option correct is 'tis2'"):
        method("grpo:correct=tis2")

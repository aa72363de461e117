"""Gradients beside TRL's own GRPOTrainer, on the same completions, scores and weights.

TRL divides by the sample sigma + 1e-4 and this library by the population sigma, so that where scores are
standardised ours is √(K/(K - 1)) times TRL's. Scores there are in the ten thousands, next to which 1e-4 is nothing.
The KL has no sigma: TRL's `beta` is divided by that factor. Both policies start at the same distance from the
reference, and move by the same step before the second epoch on the batch.
"""

import zlib
from functools import cache
from math import sqrt
from pathlib import Path
from typing import Any

import pytest
import torch

pytest.importorskip("trl")
from transformers import TrainerCallback
from trl import GRPOConfig, GRPOTrainer

from support import tiny_model
from tpo.llm import TargetPolicyTrainer

K, BETA, LENGTH = 4, 0.3, 6
SCALE = sqrt(K / (K - 1))
CLIP = {"epsilon": 0.2, "epsilon_high": 0.3}
CASES: dict[str, tuple[dict[str, Any], dict[str, Any], float]] = {
    # our options, TRL's, and our gradient as a multiple of TRL's
    "grpo": ({"clip": 0.2}, {"loss_type": "grpo"}, SCALE),
    "dr_grpo": ({"clip": 0.2}, {"loss_type": "dr_grpo", "scale_rewards": "none"}, 1.0),
    "dapo": ({"clip_low": 0.2, "clip_high": 0.3}, {"loss_type": "dapo", **CLIP}, SCALE),
    "cispo": ({"cap": 1.2}, {"loss_type": "cispo", "epsilon_high": 1.2}, SCALE),
    "sapo": ({}, {"loss_type": "sapo"}, SCALE),
    "gspo": (
        {"clip_low": 0.05, "clip_high": 0.06},
        {"loss_type": "grpo", "importance_sampling_level": "sequence",
         "epsilon": 0.05, "epsilon_high": 0.06},
        SCALE,
    ),
    "luspo": (
        {"clip_low": 0.05, "clip_high": 0.06},
        {"loss_type": "luspo", "importance_sampling_level": "sequence",
         "epsilon": 0.05, "epsilon_high": 0.06},
        SCALE,
    ),
    "vespo": ({}, {"loss_type": "vespo"}, SCALE),
}  # fmt: skip
SMOOTH = ("sapo", "vespo")
"""These clip nothing."""
LAYOUTS = {
    "one micro-batch": {"per_device_train_batch_size": 8, "gradient_accumulation_steps": 1},
    "split groups": {"per_device_train_batch_size": 2, "gradient_accumulation_steps": 4},
}


def completions(rows: int) -> list[list[int]]:
    """Of 2 to 6 tokens; every third is truncated, the others end."""
    draw = torch.Generator().manual_seed(1)
    found = []
    for i in range(rows):
        n = LENGTH if i % 3 == 0 else 2 + i % 4
        ids = torch.randint(len(tiny_model.WORDS), (n,), generator=draw).tolist()
        found.append(ids if i % 3 == 0 else [*ids[:-1], tiny_model.EOS])
    return found


def score(completion_ids: list[list[int]], **_: Any) -> list[float]:
    return [zlib.crc32(bytes(ids)) / 2**32 for ids in completion_ids]


def large_score(completion_ids: list[list[int]], **_: Any) -> list[float]:
    return [1e4 * x for x in score(completion_ids)]


def half_constant(completion_ids: list[list[int]], **_: Any) -> list[float]:
    """Every second group has one score for all of its completions."""
    scores = large_score(completion_ids)
    return [5e3 if i // K % 2 else x for i, x in enumerate(scores)]


def moved(model: Any, seed: int) -> None:
    """Every weight by the same draw, whoever trains it."""
    draw = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for weight in model.parameters():
            weight += 0.02 * torch.randn(weight.shape, generator=draw)


class Step(TrainerCallback):
    """Keeps the gradient of each optimiser step, and takes the next step by hand."""

    def __init__(self, trainer: Any) -> None:
        self.model, self.gradients = trainer.model, []

    def on_train_begin(self, *_: Any, **__: Any) -> None:
        moved(self.model, 2)

    def on_pre_optimizer_step(self, *_: Any, **__: Any) -> None:
        self.gradients.append(tiny_model.flat(p.grad for p in self.model.parameters()))

    def on_step_end(self, *_: Any, **__: Any) -> None:
        moved(self.model, 3)


def gradients(
    base: type, config: Any, model: str, reward: Any
) -> tuple[list[torch.Tensor], list[dict[str, Any]]]:
    class Fixed(base):  # type: ignore[misc]
        def _generate_single_turn(self, prompt_ids: Any, *_: Any, **__: Any) -> Any:
            return completions(len(prompt_ids)), None

    trainer = Fixed(
        model, reward, config,
        train_dataset=tiny_model.prompts(8), processing_class=tiny_model.tokenizer(),
    )  # fmt: skip
    step = Step(trainer)
    trainer.add_callback(step)
    trainer.train()
    return step.gradients, trainer.state.log_history


@cache
def saved(folder: Path) -> str:
    return tiny_model.saved(folder)


def both(
    folder: Path,
    name: str,
    beta: float,
    masked: bool,
    layout: str,
    corrected: bool = True,
    reward: Any = None,
) -> tuple[Any, Any, float]:
    ours, theirs, scale = CASES[name]
    shared = {
        **LAYOUTS[layout], "num_iterations": 2, "max_steps": 2, "learning_rate": 0.0, "optim": "sgd",
        "mask_truncated_completions": masked, "use_bias_correction_kl": corrected, "shuffle_dataset": False,
    }  # fmt: skip
    plain = tiny_model.config(folder / "out", **shared)
    keep = ("output_dir", "use_cpu", "bf16", "report_to", "save_strategy", "disable_tqdm", "logging_steps",
            "lr_scheduler_type", "max_grad_norm", "gradient_checkpointing", "num_generations",
            "max_completion_length", "disable_dropout")  # fmt: skip
    common = {k: getattr(plain, k) for k in keep} | shared
    model = saved(folder.parent / "model")
    trl = GRPOConfig(**common, **theirs, beta=beta / scale)
    own = tiny_model.config(
        folder / "out", **shared, objective=name, objective_options=ours, beta=beta
    )
    reward = reward or (score if scale == 1 else large_score)
    found = (
        gradients(TargetPolicyTrainer, own, model, reward),
        gradients(GRPOTrainer, trl, model, reward),
    )
    return *found, scale


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("masked", [False, True], ids=["", "truncated masked"])
@pytest.mark.parametrize("beta", [0.0, BETA])
@pytest.mark.parametrize("name", CASES)
def test_gradients_of_two_epochs_are_trls(
    tmp_path: Path, name: str, beta: float, masked: bool, layout: str
) -> None:
    (own, own_log), (trl, trl_log), scale = both(tmp_path, name, beta, masked, layout)
    assert len(own) == len(trl) == 2
    errors = []
    for ours, theirs in zip(own, trl, strict=True):
        assert theirs.norm() > 0.01
        errors.append(float((ours - scale * theirs).norm() / ours.norm()))
    print(f"residual {name} beta={beta} masked={masked} {layout}: {errors[0]:.1e} {errors[1]:.1e}")
    assert max(errors) < 1e-4
    if layout == "split groups":
        return  # the logs are means of micro-batches, which differ
    for ours, theirs in zip(own_log[:2], trl_log[:2], strict=True):
        names = [k for k in theirs if k == "kl" or "clip_ratio" in k]
        assert ("kl" in names) is (beta > 0)
        for k in names:
            assert ours[k] == pytest.approx(theirs[k], rel=1e-4, abs=1e-6), k
    assert any(abs(v) > 0 for k, v in own_log[1].items() if "clip_ratio" in k) or name in SMOOTH


@pytest.mark.parametrize("name", ["grpo", "cispo"])
def test_the_uncorrected_kl_is_trls_too(tmp_path: Path, name: str) -> None:
    (own, _), (trl, _), scale = both(tmp_path, name, BETA, False, "split groups", corrected=False)
    for ours, theirs in zip(own, trl, strict=True):
        assert (ours - scale * theirs).norm() < 1e-4 * ours.norm()


@pytest.mark.parametrize("beta", [0.0, BETA])
@pytest.mark.parametrize("name", CASES)
def test_a_group_of_one_score_counts_as_in_trl_but_for_dapo(
    tmp_path: Path, name: str, beta: float
) -> None:
    """DAPO leaves such a group out of the mean over tokens, as its paper does; TRL's loss of that name does not."""
    layout = "one micro-batch"
    (own, _), (trl, _), scale = both(tmp_path, name, beta, False, layout, reward=half_constant)
    errors = [
        float((ours - scale * theirs).norm() / ours.norm())
        for ours, theirs in zip(own, trl, strict=True)
    ]
    assert min(errors) > 0.1 if name == "dapo" else max(errors) < 1e-4

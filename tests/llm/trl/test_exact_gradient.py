"""The gradient of every optimiser step is that of the objective over whole groups, however TRL splits the rows."""

import json
import os
import subprocess
import sys
import zlib
from pathlib import Path
from typing import Any

import pytest

from support import ROOT

pytest.importorskip("trl")
from peft import LoraConfig

import tpo
from support import tiny_model
from support.exact_gradient import Checked
from tpo.objectives import entry

SPLIT = {"per_device_train_batch_size": 3, "gradient_accumulation_steps": 4}
HALVES = {"per_device_train_batch_size": 2, "gradient_accumulation_steps": 4}


def checked(
    folder: Path,
    reward: Any = tiny_model.reward,
    lora: Any = None,
    model: Any = None,
    **changes: Any,
) -> Checked:
    if model is None:
        model = tiny_model.saved(folder / "model") if "beta" in changes else tiny_model.model()
    trainer = Checked(
        model,
        reward,
        tiny_model.config(folder / "out", **changes),
        train_dataset=tiny_model.prompts(),
        processing_class=tiny_model.tokenizer(),
        peft_config=lora,
    )
    trainer.train()
    assert len(trainer.errors) == trainer.args.max_steps
    one_batch = trainer.num_iterations  # may be without an informative group
    assert trainer.signals >= max(1, trainer.args.max_steps - one_batch)
    return trainer


@pytest.mark.parametrize("score", ["sum", "mean", "ratio", "mean_ratio"])
@pytest.mark.parametrize("layout", [{}, SPLIT], ids=["whole groups", "split and shuffled"])
@pytest.mark.parametrize("epochs", [1, 3])
def test_scores_layouts_and_epochs(
    tmp_path: Path, score: str, layout: dict[str, int], epochs: int
) -> None:
    trainer = checked(tmp_path, score=score, num_iterations=epochs, max_steps=4, **layout)
    assert max(trainer.errors) < 1e-5


@pytest.mark.parametrize("epochs", [1, 2])
@pytest.mark.parametrize(("every", "accumulation"), [(2, 4), (4, 2), (6, 2), (4, 3), (2, 3)])
def test_steps_per_generation_below_above_and_misaligned(
    tmp_path: Path, every: int, accumulation: int, epochs: int
) -> None:
    trainer = checked(
        tmp_path,
        score="mean",
        per_device_train_batch_size=2,
        steps_per_generation=every,
        gradient_accumulation_steps=accumulation,
        num_iterations=epochs,
        max_steps=5,
    )
    assert max(trainer.errors) < 1e-5


def accepted(name: str) -> bool:
    make = entry(name).make
    return not make.traits.critic and set(make.needs) <= {"baseline"}


def apart(completions: list[str], **_: Any) -> list[float]:
    """No two texts score alike, so that no score equals its group's mean, where rounding would determine the sign."""
    return [zlib.crc32(text.encode()) / 2**32 for text in completions]


@pytest.mark.parametrize("name", [name for name in tpo.list_objectives() if accepted(name)])
def test_every_objective_split_over_micro_batches(tmp_path: Path, name: str) -> None:
    gspo = {"objective_options": {"clip_low": 0.2, "clip_high": 0.2}, "learning_rate": 1e-4}
    changes = gspo if "gspo" in name else {"learning_rate": 1e-3}  # else all is clipped
    reward = tiny_model.reward if name == "ce" else apart  # to `ce` all of these are correct
    trainer = checked(
        tmp_path, reward, objective=name, num_iterations=2, max_steps=3, **HALVES, **changes
    )
    assert max(trainer.errors) < 1e-5


def short(completions: list[str], **_: Any) -> list[float]:
    return [1.0 / (1 + len(set(text.split()))) for text in completions]


@pytest.mark.parametrize("name", ["tpo", "gdpo"])
def test_several_rewards(tmp_path: Path, name: str) -> None:
    trainer = checked(tmp_path, [tiny_model.reward, short], objective=name, **SPLIT)
    assert trainer.rollouts.groups.scores.shape[-1] == 2
    assert max(trainer.errors) < 1e-5


@pytest.mark.parametrize("name", ["tpo", "grpo"])
@pytest.mark.parametrize("layout", [{}, HALVES], ids=["whole groups", "halves"])
@pytest.mark.parametrize("rank", [0, 4], ids=["all weights", "LoRA"])
@pytest.mark.parametrize("corrected", [True, False], ids=["corrected", "plain"])
def test_kl_to_a_reference(
    tmp_path: Path, name: str, layout: dict[str, int], rank: int, corrected: bool
) -> None:
    """The reference is a model of its own, or the model without its adapters."""
    lora = LoraConfig(r=rank, target_modules=["q_proj", "down_proj"]) if rank else None
    trainer = checked(
        tmp_path, objective=name, lora=lora, beta=0.1, use_bias_correction_kl=corrected,
        num_iterations=2, max_steps=4, **layout,
    )  # fmt: skip
    assert max(trainer.errors) < 1e-5
    assert (trainer.ref_model is None) is bool(rank)


@pytest.mark.parametrize("name", ["rloo", "remax", "ppo", "reinforce_pp"])
@pytest.mark.parametrize("layout", [{}, HALVES], ids=["whole groups", "halves"])
def test_kl_inside_the_reward(tmp_path: Path, name: str, layout: dict[str, int]) -> None:
    """A baseline over the batch needs the log-probs of all micro-batches before the first."""
    inside = {"objective_options": {"kl_in_reward": True}} if name == "ppo" else {}
    trainer = checked(
        tmp_path, apart, objective=name, beta=0.3, learning_rate=1e-3, num_iterations=2, max_steps=4,
        **layout, **inside,
    )  # fmt: skip
    assert max(trainer.errors) < 1e-5


def test_eager_attention(tmp_path: Path) -> None:
    """It adds its mask to the scores, so groups are not packed."""
    model = tiny_model.model()
    model.set_attn_implementation("eager")
    assert max(checked(tmp_path, model=model).errors) < 1e-5


def test_lora_with_checkpointing(tmp_path: Path) -> None:
    lora = LoraConfig(r=4, lora_dropout=0.1, target_modules=["q_proj", "v_proj", "down_proj"])
    trainer = checked(
        tmp_path, lora=lora, score="mean", gradient_checkpointing=True, num_iterations=2, max_steps=4, **SPLIT
    )  # fmt: skip
    assert max(trainer.errors) < 1e-5


def some_missing(completions: list[str], **_: Any) -> list[float | None]:
    scores = tiny_model.reward(completions)
    return [None if i % 5 == 0 else float("inf") if i % 7 == 0 else s for i, s in enumerate(scores)]


@pytest.mark.filterwarnings("ignore:a completion could not be scored:RuntimeWarning")
@pytest.mark.parametrize(
    "layout", [{"gradient_accumulation_steps": 4}, SPLIT], ids=["whole", "split"]
)
def test_truncated_and_unscored_completions_are_no_candidates(
    tmp_path: Path, layout: dict[str, int]
) -> None:
    trainer = checked(
        tmp_path,
        some_missing,
        score="mean",
        drop_truncated_completions=True,
        max_completion_length=100,
        num_iterations=2,
        max_steps=4,
        **layout,
    )
    valid = trainer._rollouts.groups.valid
    assert 0 < valid.sum() < valid.numel()
    truncated = [not any(row["mask"]) for batch in trainer._batches for row in batch["rows"]]
    assert any(truncated)
    assert max(trainer.errors) < 1e-5


def test_no_extra_pass_where_none_is_needed(tmp_path: Path) -> None:
    """On-policy: whole groups under any score, and split groups under a ratio score or an objective that needs no whole groups."""
    assert checked(tmp_path, score="mean").passes == 0
    assert checked(tmp_path, score="ratio", **SPLIT).passes == 0
    assert checked(tmp_path, objective="grpo", **SPLIT).passes == 0
    assert checked(tmp_path, score="mean", **SPLIT).passes > 0


def test_two_processes_with_a_group_across_ranks(tmp_path: Path) -> None:
    script = ROOT / "tests/llm/trl/two_processes.py"
    done = subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2",  str(script), str(tmp_path)],
        capture_output=True, text=True, check=False, cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT / "tests"), "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    for name in ("sum", "ratio", "grpo", "remax", "whole"):
        found = json.loads((tmp_path / f"{name}.json").read_text())
        assert found["processes"] == 2
        assert found["straddles"] is (name != "whole")
        assert len(found["errors"]) == 4
        assert max(found["errors"]) < 1e-5

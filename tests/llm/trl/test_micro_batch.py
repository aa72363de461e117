"""Micro-batches: the largest that fits is chosen, kept and halved, and the gradient is the same."""

import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("trl")
import torch

from support import tiny_model
from support.exact_gradient import Checked
from support.tiny_training import flags
from tpo.cli import main
from tpo.llm.runs.recipe import recipe
from tpo.llm.trl import micro_batch
from tpo.llm.trl.micro_batch import MicroBatch, halved, largest_fitting, sizes, split

WHOLE = {"per_device_train_batch_size": 16, "gradient_accumulation_steps": 1}


def test_sizes_are_whole_groups_from_one_to_all() -> None:
    assert sizes(256, 16) == [16, 32, 64, 128, 256]
    assert sizes(12, 4) == [4, 8, 12]
    assert sizes(4, 4) == [4]
    assert halved(12, 4) == 8
    assert halved(4, 4) == 4


@pytest.mark.parametrize(("free", "expected"), [(1, 4), (80, 8), (159, 8), (160, 16), (999, 16)])
def test_the_largest_that_fits_is_chosen(free: int, expected: int) -> None:
    tried: list[int] = []

    def measure(rows: int) -> int:
        tried.append(rows)
        return 10 * rows

    assert largest_fitting([4, 8, 16], measure, free) == expected
    assert len(tried) <= 3


def test_a_size_that_runs_out_of_memory_does_not_fit() -> None:
    def measure(rows: int) -> int:
        if rows > 8:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return 0

    assert largest_fitting([4, 8, 16, 32], measure, 1) == 8
    assert largest_fitting([16, 32], measure, 1) == 16


def test_a_batch_is_split_by_rows() -> None:
    batch = {"completion_ids": torch.arange(6).reshape(6, 1), "n": torch.tensor(3), "x": None}
    parts = list(split(batch, 4))
    assert [part["completion_ids"].flatten().tolist() for part in parts] == [[0, 1, 2, 3], [4, 5]]
    assert all(part["n"] == 3 and part["x"] is None for part in parts)


def made(folder: Path, kind: Any = Checked, **changes: Any) -> Any:
    return kind(
        tiny_model.model(),
        tiny_model.reward,
        tiny_model.config(folder, **{**WHOLE, **changes}),
        train_dataset=tiny_model.prompts(),
        processing_class=tiny_model.tokenizer(),
    )


@pytest.mark.parametrize("rows", [4, 8, 12, 16])
@pytest.mark.parametrize("objective", ["tpo", "grpo"])
def test_the_gradient_is_exact_whatever_the_size(tmp_path: Path, rows: int, objective: str) -> None:
    trainer = made(tmp_path, micro_batch=rows, objective=objective, num_iterations=2, max_steps=4)
    trainer.train()
    assert len(trainer.errors) == 4
    assert max(trainer.errors) < 1e-5


def test_a_step_that_runs_out_of_memory_is_repeated(tmp_path: Path) -> None:
    plain = made(tmp_path, micro_batch=4)
    plain.train()

    class Late(Checked):
        def _compute_loss(self, model: Any, inputs: Any) -> Any:
            loss = super()._compute_loss(model, inputs)
            if len(inputs["row"]) > 4 and self.state.global_step == 1:
                self._micro.clear()
                return _Fails.apply(loss)
            return loss

    late = made(tmp_path, Late, micro_batch=16)
    with pytest.warns(UserWarning, match="out of memory at step 1 with a micro-batch of") as said:
        late.train()
    texts = [str(one.message) for one in said if "out of memory" in str(one.message)]
    assert len(texts) == 2
    assert "continues, with 8" in texts[0]
    assert "continues, with 4" in texts[1]
    assert late.micro_batch.rows == 4
    assert max(late.errors) < 1e-5
    ours, expected = tiny_model.weights(late), tiny_model.weights(plain)
    assert (ours - expected).norm() < 1e-5 * expected.norm()
    noted = [row["entropy"] for row in late.state.log_history if "entropy" in row]
    assert noted == pytest.approx(
        [row["entropy"] for row in plain.state.log_history if "entropy" in row], rel=1e-4
    )


class _Fails(torch.autograd.Function):
    """Runs out of memory on the way back."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x.clone()

    @staticmethod
    def backward(ctx: Any, *_: Any) -> Any:
        raise torch.OutOfMemoryError("CUDA out of memory")


def test_part_of_a_gradient_is_dropped_before_a_step_is_repeated(tmp_path: Path) -> None:
    """The second of two micro-batches fails: the gradient of the first must not count twice."""

    class Second(Checked):
        calls = 0

        def _compute_loss(self, model: Any, inputs: Any) -> Any:
            loss = super()._compute_loss(model, inputs)
            self.calls += 1
            if self.calls == 2:
                self._micro.clear()
                return _Fails.apply(loss)
            return loss

    trainer = made(tmp_path, Second, micro_batch=8)
    with pytest.warns(UserWarning, match="with a micro-batch of 8 completions"):
        trainer.train()
    assert max(trainer.errors) < 1e-5


def test_one_group_that_does_not_fit_says_what_to_do(tmp_path: Path) -> None:
    class Never(Checked):
        def _compute_loss(self, model: Any, inputs: Any) -> Any:
            return _Fails.apply(super()._compute_loss(model, inputs))

    with pytest.raises(torch.OutOfMemoryError, match="micro-batch of 4 .*lower group_size"):
        made(tmp_path, Never, micro_batch=4).train()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"micro_batch": 6}, "micro_batch is 6, expected a multiple of num_generations=4"),
        ({"micro_batch": -4}, "micro_batch is -4"),
        ({"micro_batch": 4, "gradient_accumulation_steps": 2}, "gradient_accumulation_steps=2"),
    ],
)
def test_wrong_options_of_the_trainer(tmp_path: Path, changes: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        tiny_model.config(tmp_path, **{**WHOLE, **changes})


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """A device with memory for 8 rows; the sizes that were measured."""
    tried: list[int] = []

    def needed(self: MicroBatch, inputs: Any, rows: int) -> int:
        tried.append(rows)
        self._try(micro_batch.longest_batch(inputs, rows, self.trainer))
        return rows

    monkeypatch.setattr("tpo.llm.runs.trl_options.measures_micro_batch", lambda cpu: True)
    monkeypatch.setattr(MicroBatch, "_memory_needed", needed)
    monkeypatch.setattr(micro_batch, "free_memory", lambda trainer: 8)
    return tried


def test_auto_is_measured_kept_and_taken_up_by_a_resume(
    place: Path, device: list[int], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(flags(place, prompts=4, beta=0.1)) == 0
    assert device == [4, 8, 16]
    assert "micro-batch: 8 completions" in capsys.readouterr().err
    out = place / "run"
    assert json.loads((out / "micro_batch.json").read_text()) == {"micro_batch": 8}
    assert json.loads((out / "result.json").read_text())["micro_batch"] == 8
    (out / "result.json").unlink()
    (out / "micro_batch.json").write_text('{"micro_batch": 4}')
    device.clear()
    for folder in (out / "checkpoints").glob("checkpoint-3"):
        for file in sorted(folder.rglob("*"), reverse=True):
            file.unlink()
        folder.rmdir()
    assert main([*flags(place, prompts=4, beta=0.1), "--resume"]) == 0
    assert device == []
    assert json.loads((out / "result.json").read_text())["micro_batch"] == 4


def test_auto_ends_with_the_weights_of_one_group(place: Path, device: list[int]) -> None:
    from safetensors.torch import load_file

    assert main(flags(place, "auto", prompts=4, epochs=2, micro_batch="auto")) == 0
    assert main(flags(place, "one", prompts=4, epochs=2, micro_batch=4)) == 0
    assert device == [4, 8, 16]
    ours, expected = (
        tiny_model.flat(load_file(place / name / "model/model.safetensors").values())
        for name in ("auto", "one")
    )
    assert (ours - expected).norm() < 1e-5 * expected.norm()
    results = [json.loads((place / n / "result.json").read_text()) for n in ("auto", "one")]
    assert [r["micro_batch"] for r in results] == [8, 4]
    assert results[0]["steps"] == results[1]["steps"]
    assert results[0]["rollouts"] == results[1]["rollouts"]


def test_on_a_cpu_it_is_one_group() -> None:
    config = recipe({"model": "m", "task": "toy:sort", "micro_batch": "auto", "cpu": True}).config()
    assert config.micro_batch is None
    assert config.per_device_train_batch_size == 16
    assert config.gradient_accumulation_steps == 16


def test_options_that_lay_out_the_batch_turn_it_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tpo.llm.runs.trl_options.measures_micro_batch", lambda cpu: True)
    asked = {"model": "m", "task": "toy:sort", "cpu": True}
    assert recipe(asked).config().micro_batch == 0
    assert recipe({**asked, "micro_batch": 32}).config().micro_batch is None
    own = recipe({**asked, "trl": {"gradient_accumulation_steps": 8}}).config()
    assert own.micro_batch is None


@pytest.mark.parametrize("value", ["many", "1.5", "0", "7"])
def test_a_wrong_value_is_refused_in_a_line(
    place: Path, value: str, capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        status = main(flags(place, micro_batch=value))
    except SystemExit as stopped:
        status = int(stopped.code or 0)
    assert status == 2
    assert capsys.readouterr().err.strip().splitlines()[-1].count("micro") >= 1

"""`--micro-batch auto` with a GPU's counters of memory in place: what is measured, what is left free."""

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("trl")
import torch

from support import tiny_model
from tpo.llm.trl import micro_batch
from tpo.llm.trl.micro_batch import MARGIN, MicroBatch

PER_ROW = 1_000_000
"""Bytes at the peak of a pass, for each of its rows."""


class Device:
    """A GPU's counters: a pass over n rows takes n·PER_ROW bytes at its peak, beside what is held anyway."""

    def __init__(self, free: int) -> None:
        self.free, self.held, self.peak = free, 12_345, 0
        self.shapes: list[tuple[int, ...]] = []

    def install(self, patch: pytest.MonkeyPatch) -> None:
        trying = MicroBatch._try

        def tried(own: MicroBatch, batch: dict[str, Any]) -> None:
            self.shapes.append(tuple(batch["completion_ids"].shape))
            self.peak = max(self.peak, self.held + PER_ROW * len(batch["completion_ids"]))
            trying(own, batch)

        patch.setattr(MicroBatch, "_try", tried)
        for name, found in {
            "mem_get_info": lambda _: (self.free, 10**12),
            "memory_allocated": lambda _: self.held,
            "reset_peak_memory_stats": lambda _: setattr(self, "peak", self.held),
            "max_memory_allocated": lambda _: self.peak,
        }.items():
            patch.setattr(torch.cuda, name, found)


@pytest.mark.parametrize(("room", "expected"), [(5, 4), (8.1, 8), (15.9, 8), (16.1, 16), (0, 4)])
def test_the_largest_that_fits_beside_the_optimiser_and_the_margin(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, room: float, expected: int
) -> None:
    """Of 4, 8 and 16 rows. Adam's two moments are not made yet when the first step is measured."""
    model = tiny_model.model()
    moments = 2 * sum(p.numel() * p.element_size() for p in model.parameters())
    device = Device(int((moments + room * PER_ROW) / (1 - MARGIN)) + 1)
    device.install(monkeypatch)
    options = {"per_device_train_batch_size": 16, "gradient_accumulation_steps": 1, "max_steps": 1}
    trainer = tiny_model.trainer(tmp_path, micro_batch=0, **options)
    chosen: list[int] = []
    trainer.micro_batch.on_change = chosen.append
    trainer.train()
    assert chosen == [expected]
    longest = trainer.max_completion_length
    assert {width for _, width in device.shapes} == {longest}
    assert [rows for rows, _ in device.shapes] == [4, 8, 16][: len(device.shapes)]


def test_runs_that_share_a_device_share_its_memory(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    trainer = tiny_model.trainer(tmp_path, max_steps=1)
    trainer.create_optimizer()
    trainer.optimizer.state["made"] = {}  # the moments exist already
    Device(1_000_000).install(monkeypatch)
    alone = micro_batch.free_memory(trainer)
    monkeypatch.setattr(micro_batch, "runs_on_device", 4)
    assert alone == int((1 - MARGIN) * 1_000_000)
    assert micro_batch.free_memory(trainer) == alone // 4

"""Run by `torchrun` with two processes: errors of every step's gradient, into a file per setting."""

import json
import sys
from pathlib import Path
from typing import Any

import torch

from support import tiny_model
from support.exact_gradient import Checked


def run(folder: Path, name: str, **changes: Any) -> None:
    trainer = Checked(
        tiny_model.model(),
        tiny_model.reward,
        tiny_model.config(
            folder / "out",
            **{"per_device_train_batch_size": 3, "num_iterations": 2, "max_steps": 4, **changes},
        ),
        train_dataset=tiny_model.prompts(),
        processing_class=tiny_model.tokenizer(),
    )
    trainer.train()
    if trainer.accelerator.is_main_process:
        args = trainer.args
        rows = args.per_device_train_batch_size * args.steps_per_generation  # of this rank
        result = {
            "processes": trainer.accelerator.num_processes,
            "straddles": rows % trainer.num_generations != 0,
            "errors": trainer.errors,
        }
        (folder / f"{name}.json").write_text(json.dumps(result))


if __name__ == "__main__":
    torch.set_num_threads(1)
    target = Path(sys.argv[1])
    run(target, "sum", score="sum")
    run(target, "ratio", score="ratio")
    run(target, "grpo", objective="grpo")
    run(target, "remax", objective="remax")
    run(target, "whole", score="mean", per_device_train_batch_size=4)

"""What a run took: completions and tokens that it sampled for training, seconds, memory."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

from tpo.llm.trl.config import TargetPolicyConfig


def rollouts(config: TargetPolicyConfig, steps: int) -> int:
    """Completions that are sampled up to an optimiser step.

    A rollout batch serves steps_per_generation x num_iterations micro-batches, an optimiser step takes
    gradient_accumulation_steps of them.
    """
    serves = config.steps_per_generation * config.num_iterations
    batches = math.ceil(steps * config.gradient_accumulation_steps / serves)
    return int(batches * config.generation_batch_size)


def account(
    log: Sequence[dict[str, Any]], config: TargetPolicyConfig, steps: int
) -> dict[str, Any]:
    """For result.json, from the log of all steps; times are means over the rows that have them."""
    sampled, on_device = rollouts(config, steps), config.device.type == "cuda"
    times = sorted({name for row in log for name in row if _is_time(name)})
    length = _mean(log, "completions/mean_length")
    return {
        "rollouts": sampled,
        "sampled_tokens": None if length is None else round(sampled * length),
        "seconds_per_step": {name.removesuffix("_time"): _mean(log, name) for name in times},
        "peak_memory": torch.cuda.max_memory_allocated() if on_device else None,
    }


def _is_time(name: str) -> bool:
    return name.endswith("_time") and "/" not in name  # a reward function's name may end so


def _mean(log: Sequence[dict[str, Any]], name: str) -> float | None:
    found = [row[name] for row in log if isinstance(row.get(name), (int, float))]
    return sum(found) / len(found) if found else None

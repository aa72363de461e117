"""What a run cost: completions and tokens sampled for training, seconds, memory."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

from tpo.llm.trl.config import TargetPolicyConfig


def sampled_completions(config: TargetPolicyConfig, steps: int) -> int:
    """Completions that are sampled up to an optimiser step.

    A rollout batch is used for steps_per_generation x num_iterations micro-batches, and an optimiser step takes
    gradient_accumulation_steps of them.
    """
    micro_batches = config.steps_per_generation * config.num_iterations
    batches = math.ceil(steps * config.gradient_accumulation_steps / micro_batches)
    return int(batches * config.generation_batch_size)


def run_costs(
    log: Sequence[dict[str, Any]], config: TargetPolicyConfig, steps: int
) -> dict[str, Any]:
    """For result.json, from the log of all steps; each time is a mean over the rows that have it."""
    rollouts, on_gpu = sampled_completions(config, steps), config.device.type == "cuda"
    times = sorted({name for row in log for name in row if _is_time(name)})
    length = _mean(log, "completions/mean_length")
    return {
        "rollouts": rollouts,
        "sampled_tokens": None if length is None else round(rollouts * length),
        "seconds_per_step": {name.removesuffix("_time"): _mean(log, name) for name in times},
        "peak_memory": torch.cuda.max_memory_allocated() if on_gpu else None,
    }


def _is_time(name: str) -> bool:
    return name.endswith("_time") and "/" not in name  # a reward function's name may end so


def _mean(log: Sequence[dict[str, Any]], name: str) -> float | None:
    values = [row[name] for row in log if isinstance(row.get(name), (int, float))]
    return sum(values) / len(values) if values else None

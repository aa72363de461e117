"""What a recipe means to TRL: the config that its trainer takes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields
from importlib.util import find_spec
from typing import Any

import torch

from tpo.checks import close_match
from tpo.llm.runs.launch import processes
from tpo.llm.runs.recipe import Recipe
from tpo.llm.trl.config import TargetPolicyConfig

LOGGERS = {
    "tensorboard": ("tensorboard", "tensorboardX"),
    "trackio": ("trackio",),
    "wandb": ("wandb",),
}
"""What `report_to` may name, and the packages of which one must be there; TRL knows further ones."""


def config(recipe: Recipe) -> TargetPolicyConfig:
    """TRL's options for a recipe; what `recipe.trl` holds comes last."""
    cpu = recipe.cpu or not torch.cuda.is_available()
    chosen: dict[str, Any] = {
        "output_dir": str(recipe.checkpoints),
        "objective": recipe.objective,
        "objective_options": recipe.objective_options or None,
        "score": recipe.score,
        "eta": recipe.eta,
        "learning_rate": recipe.learning_rate,
        "beta": recipe.beta,
        "max_grad_norm": recipe.max_grad_norm,
        "skip_zero_gradient": recipe.skip_zero_gradient,
        "max_steps": recipe.steps,
        "per_device_train_batch_size": recipe.rows_per_device,
        "gradient_accumulation_steps": recipe.prompts * recipe.group_size // recipe.rows_per_step,
        "num_generations": recipe.group_size,
        "num_iterations": recipe.epochs,
        "max_completion_length": recipe.max_tokens,
        "temperature": recipe.temperature,
        "drop_truncated_completions": recipe.drop_truncated,
        "seed": recipe.seed,
        "save_strategy": "steps" if recipe.save_every else "no",
        "save_steps": recipe.in_steps(recipe.save_every) or 1,
        "save_total_limit": 2,
        "logging_steps": 1,
        "report_to": recipe.report_to.split(","),
        "disable_tqdm": True,
        "use_vllm": recipe.vllm,
        "use_cpu": cpu,
        "bf16": not cpu,
        "lr_scheduler_type": "constant_with_warmup",  # of 0 steps, unless trl holds warmup_steps
        "optim": "adamw_torch" if cpu else "adamw_torch_fused",
        "gradient_checkpointing": not cpu,
    }
    if recipe.micro_batch is None and measures(cpu) and not recipe.own_batching:
        rows = recipe.prompts * recipe.group_size // processes()
        whole_step = {"per_device_train_batch_size": rows, "gradient_accumulation_steps": 1}
        chosen |= {**whole_step, "micro_batch": 0}
    _check_loggers(recipe.report_to.split(","))
    _check_names(recipe.trl)
    chosen |= recipe.trl
    if isinstance(parallel := chosen.get("parallelism_config"), dict):  # as JSON and YAML hold it
        from accelerate.parallelism_config import ParallelismConfig

        chosen["parallelism_config"] = ParallelismConfig(**parallel)
    return TargetPolicyConfig(**chosen)


def measures(cpu: bool) -> bool:
    """Whether larger micro-batches gain time: not on a CPU, which is busy with one group."""
    return not cpu


def _check_loggers(names: Iterable[str]) -> None:
    for name in names:
        packages = LOGGERS.get(name, ())
        if packages and not any(map(find_spec, packages)):
            raise ModuleNotFoundError(
                f"report_to is {name!r}, which is not installed: pip install {packages[0]}",
                name=packages[0],
            )


def _check_names(given: Iterable[str]) -> None:
    known = [f.name for f in fields(TargetPolicyConfig)]
    for name in given:
        if name not in known:
            hint = close_match(name, known)
            raise ValueError(f"trl holds {name!r}, which is no option of TRL's GRPOConfig.{hint}")

"""TRL's config for a recipe."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields
from importlib.util import find_spec
from typing import Any

import torch

from tpo.checks import close_match
from tpo.llm.objective_options import check_engine
from tpo.llm.run_options import TRL
from tpo.llm.runs.launch import processes
from tpo.llm.runs.recipe import Recipe
from tpo.llm.trl.config import TargetPolicyConfig
from tpo.llm.trl.field_types import trl_name
from tpo.options import declared

LOGGERS = {
    "tensorboard": ("tensorboard", "tensorboardX"),
    "trackio": ("trackio",),
    "wandb": ("wandb",),
}
"""Names for `report_to`, with packages of which one must be installed; TRL knows further names."""


def trl_config(recipe: Recipe) -> TargetPolicyConfig:
    """The config of the trainer; options in `recipe.trl` override all others."""
    on_cpu = recipe.cpu or not torch.cuda.is_available()
    options = {**_from_recipe(recipe), **_from_device(on_cpu), **_batch_layout(recipe, on_cpu)}
    _check_loggers(options["report_to"])
    _check_names(recipe.trl)
    options |= recipe.trl
    if isinstance(parallel := options.get("parallelism_config"), dict):  # as JSON and YAML hold it
        from accelerate.parallelism_config import ParallelismConfig

        options["parallelism_config"] = ParallelismConfig(**parallel)
    config = TargetPolicyConfig(**options)
    check_engine(config.build(), config.use_vllm)
    return config


def _from_recipe(recipe: Recipe) -> dict[str, Any]:
    ours = {name for options in TRL if isinstance(recipe, options) for name in declared(options)}
    options = declared(recipe).items()
    return {
        **{trl_name(f): getattr(recipe, k) for k, f in options if k in ours or "trl" in f.metadata},
        "output_dir": str(recipe.checkpoints),
        "lr_scheduler_type": "constant_with_warmup",  # of 0 steps, unless trl holds warmup_steps
        "save_strategy": "steps" if recipe.save_every else "no",
        "save_steps": recipe.in_steps(recipe.save_every) or 1,
        "save_total_limit": 2,
        "logging_steps": 1,
        "report_to": recipe.report_to.split(","),
        "disable_tqdm": True,
    }


def _from_device(on_cpu: bool) -> dict[str, Any]:
    return {
        "use_cpu": on_cpu,
        "bf16": not on_cpu,
        "optim": "adamw_torch" if on_cpu else "adamw_torch_fused",
        "gradient_checkpointing": not on_cpu,
    }


def _batch_layout(recipe: Recipe, on_cpu: bool) -> dict[str, Any]:
    """How the rows of a step are split; a micro-batch of 0 is measured at the first step."""
    rows = recipe.prompts * recipe.group_size
    if recipe.micro_batch is None and measures_micro_batch(on_cpu) and not recipe.custom_batching:
        return {
            "per_device_train_batch_size": rows // processes(),
            "gradient_accumulation_steps": 1,
            "micro_batch": 0,
        }
    return {
        "per_device_train_batch_size": recipe.rows_per_device,
        "gradient_accumulation_steps": rows // recipe.rows_per_step,
    }


def measures_micro_batch(on_cpu: bool) -> bool:
    """Whether the largest micro-batch is measured: not on a CPU, where larger ones save no time."""
    return not on_cpu


def _check_loggers(names: Iterable[str]) -> None:
    for name in names:
        packages = LOGGERS.get(name, ())
        if packages and not any(map(find_spec, packages)):
            raise ModuleNotFoundError(
                f"report_to is {name!r}, which is not installed: pip install {packages[0]}",
                name=packages[0],
            )


def _check_names(options: Mapping[str, Any]) -> None:
    if "revision" in (options.get("model_init_kwargs") or {}):
        raise ValueError(
            "trl holds model_init_kwargs.revision: write it with the model, --model NAME@REVISION"
        )
    known = [f.name for f in fields(TargetPolicyConfig)]
    for name in options:
        if name not in known:
            hint = close_match(name, known)
            raise ValueError(
                f"trl holds {name!r}, which is not an option of TRL's GRPOConfig.{hint}"
            )

"""Recipe: all options of a training run as one value; presets, files, flags."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tpo.checks import close_match
from tpo.llm.objective_options import build_objective, check_engine, check_group
from tpo.llm.rewards.sandbox import Sandbox
from tpo.llm.run_options import (
    GroupOptions,
    ModelOptions,
    ObjectiveOptions,
    OutputOptions,
    PromptOptions,
    SandboxOptions,
    ScoringOptions,
    TrainingOptions,
)
from tpo.llm.runs.launch import processes
from tpo.llm.tasks import OPTIONS
from tpo.llm.tasks import kind as kind_of_task
from tpo.options import check, declared, kinds, values_of, with_mark
from tpo.storage.former_names import current_options

if TYPE_CHECKING:
    from tpo.llm.trl.config import TargetPolicyConfig

PAPER_BY_TASK = {"gsm8k": {"lora": 32, "beta": 1e-3}}
"""The paper's own options for a task."""


@dataclass(frozen=True)
class Recipe(
    OutputOptions,
    ScoringOptions,
    PromptOptions,
    TrainingOptions,
    GroupOptions,
    ObjectiveOptions,
    ModelOptions,
):  # the options of the last class come first
    """A model, a task, an objective, and how long and how to train."""

    def __post_init__(self) -> None:
        check(self)
        if self.batches:
            object.__setattr__(self, "steps", self.in_steps(self.batches))
        check_group(self.objective, "group_size", self.group_size)
        for name in self.trl:
            if name in KINDS:
                raise ValueError(f"trl holds {name!r}, which is an option of its own: give {name}")
        self._check_micro_batch()

    def _check_micro_batch(self) -> None:
        rows, per_step = self.prompts * self.group_size, self.rows_per_step
        if rows % per_step == 0:
            return
        fits = [m for m in range(1, rows + 1) if rows % (m * processes()) == 0]
        whole_groups = [m for m in fits if m % self.group_size == 0] or fits
        near = max(
            (m for m in whole_groups if m <= self.rows_per_device),
            default=min(whole_groups, default=0),
        )
        raise ValueError(
            f"micro_batch is {self.rows_per_device} on {processes()} processes, and a rollout batch has "
            f"prompts x group_size = {rows} completions: "
            + (f"set micro_batch={near}" if near else f"set prompts={per_step}")
        )

    def in_steps(self, n: int) -> int:
        """Optimiser steps in n steps or, if the budget is in rollout batches, in n batches."""
        return n * self.epochs if self.batches else n

    @property
    def checkpoints(self) -> Path:
        """The folder that an interrupted run resumes from."""
        return Path(self.trl.get("output_dir") or Path(self.out) / "checkpoints")

    @property
    def rows_per_device(self) -> int:
        """Completions per forward pass."""
        return self.micro_batch or self.group_size

    @property
    def custom_batching(self) -> bool:
        """Whether `trl` or the launcher splits the batch; micro_batch "auto" is then one group."""
        sharded = any(f"ACCELERATE_USE_{name}" in os.environ for name in ("FSDP", "DEEPSPEED"))
        return sharded or any(name in self.trl for name in TRL_BATCHING)

    @property
    def rows_per_step(self) -> int:
        """Completions per forward pass of all processes."""
        return self.rows_per_device * processes()

    @property
    def of_task(self) -> dict[str, Any]:
        """The options of the task. The seed is not among them: runs with other seeds have the same prompts."""
        return values_of(self, PromptOptions)

    @property
    def sandbox(self) -> Sandbox:
        """What the processes that score may use."""
        return Sandbox(**values_of(self, SandboxOptions))

    def config(self) -> TargetPolicyConfig:
        """TRL's options for this recipe."""
        from tpo.llm.runs.trl_options import trl_config

        return trl_config(self)

    def to_dict(self) -> dict[str, Any]:
        """As JSON and YAML hold it."""
        return asdict(self)


KINDS = kinds(Recipe)
"""What each option of a recipe accepts."""
PER_METHOD = with_mark(Recipe, "per_method")
"""Options that a method of a comparison may set; all others are the same for every method."""
PRESETS: dict[str, dict[str, Any]] = {
    "paper": {},
    "small": {k: f.metadata["small"] for k, f in declared(Recipe).items() if "small" in f.metadata},
}
"""`paper`, the defaults: the recipe of arXiv 2604.06159 for language models. `small`: for one small machine."""
TRL_BATCHING = (
    "per_device_train_batch_size", "gradient_accumulation_steps", "steps_per_generation",
    "generation_batch_size", "micro_batch", "deepspeed", "fsdp", "fsdp_config", "parallelism_config",
    "use_liger_kernel",
)  # fmt: skip
"""Options of TRL with which the micro-batch is not measured."""


def recipe(
    options: Mapping[str, Any], file: Mapping[str, Any] | None = None, preset: str | None = None
) -> Recipe:
    """A recipe from a preset (default `paper`); a file's values override it, and `options` override both."""
    given = {**with_current_names(file or {}), **with_current_names(options)}
    preset = preset or given.get("preset", "paper")
    given.pop("preset", None)
    if preset not in PRESETS:
        raise ValueError(f"unknown preset {preset!r}. Valid names: {', '.join(PRESETS)}")
    defaults = dict(PRESETS[preset])
    if preset == "paper":
        defaults |= PAPER_BY_TASK.get(kind_of_task(str(given.get("task", ""))) or "", {})
    values = {**defaults, **given}
    refuse_unknown(values)
    for name in ("model", "task"):
        if not values.get(name):
            raise ValueError(f"{name} is missing: give --{name}, or {name}: in the file")
    if values.get("batches") and "steps" in values:
        raise ValueError(
            f"steps is {values['steps']} and batches is {values['batches']}: give one of them; "
            "steps is batches x epochs"
        )
    made = Recipe(**{name: typed_option(name, value) for name, value in values.items()})
    _check_task_options(made)
    options = {**made.objective_options, "score": made.score, "eta": made.eta}
    built = build_objective(made.objective, options, made.beta, "give beta instead")
    check_engine(built, made.vllm)
    return made


def with_current_names(options: Mapping[str, Any]) -> dict[str, Any]:
    """Options of a recipe with former names replaced, those of the objective and of TRL included."""
    current = current_options(options)
    nested = ("objective_options", "trl")
    tables = {k: current[k] for k in nested if isinstance(current.get(k), dict)}
    return current | {name: current_options(table) for name, table in tables.items()}


def _check_task_options(made: Recipe) -> None:
    """An option that the task does not take is an error."""
    accepted = OPTIONS.get(kind_of_task(made.task) or "")
    for name in dict.fromkeys(name for names in OPTIONS.values() for name in names):
        value = getattr(made, name)
        is_default = value in (None, "", {}, declared(Recipe)[name].default)
        if accepted is not None and name not in accepted and not is_default:
            raise ValueError(
                f"{name} is {value!r}, and the task {made.task} does not take it: "
                f"it takes {', '.join(accepted)}"
            )


def typed_option(name: str, value: Any) -> Any:
    """The value of an option of a recipe, in the option's type."""
    return KINDS[name].value(name, value)


def command_flags(made: Recipe) -> str:
    """The flags of `tpo train` for this recipe, without its folder."""
    defaults = recipe({"model": made.model, "task": made.task}).to_dict()
    implied = ("out", "objective", "steps") if made.batches else ("out", "objective")
    flags = []
    for name, value in made.to_dict().items():
        if name in ("model", "task") or (value != defaults[name] and name not in implied):
            text = json.dumps(value) if isinstance(value, dict) else str(value)
            flag = f"--{'no-' if value is False else ''}{name.replace('_', '-')}"
            flags += [flag] if isinstance(value, bool) else [flag, text]
    return shlex.join(flags)


def refuse_unknown(options: Iterable[str], also_known: Iterable[str] = ()) -> None:
    """An option that neither a recipe has nor `also_known` names is an error."""
    names = [*KINDS, "preset", *also_known]
    for name in options:
        if name not in names:
            hint = close_match(name, names)
            raise ValueError(f"unknown option {name!r}.{hint} Options: {', '.join(names)}")

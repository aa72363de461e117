"""Recipe: all options of a training run as one value; presets, files, flags."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tpo.checks import close_match
from tpo.llm.objective_options import build_objective, check_engine, check_group
from tpo.llm.rewards.sandbox import ISOLATE, Sandbox
from tpo.llm.rewards.scorers import EXTRACT
from tpo.llm.runs.launch import processes
from tpo.llm.tasks import OPTIONS
from tpo.llm.tasks import kind as kind_of_task
from tpo.objectives.target_matching import SCORES
from tpo.options import (
    BOOL,
    COUNT,
    FINITE,
    NAME,
    NONNEGATIVE,
    POSITIVE,
    TABLE,
    TEXT,
    WHOLE,
    Kind,
    check,
    kinds,
    one_of,
    option,
    optional,
)
from tpo.storage.former_names import current_options

if TYPE_CHECKING:
    from tpo.llm.trl.config import TargetPolicyConfig

PRESETS: dict[str, dict[str, Any]] = {
    "paper": {"learning_rate": 1e-5, "prompts": 16, "group_size": 16},
    "small": {"learning_rate": 1e-5, "prompts": 4, "group_size": 8, "max_tokens": 64},
}
"""`paper` is the recipe of arXiv 2604.06159 for language models; `small` is for one small machine."""

PAPER_BY_TASK = {"gsm8k": {"lora": 32, "beta": 1e-3}}
"""The paper's own options for a task."""

MICRO_BATCH = Kind(
    f"{COUNT.accepts}, or auto",
    lambda v: v is None or COUNT.allowed(v),
    lambda v: None if v in (None, "auto") else COUNT.read(v),
    symbol="MICRO_BATCH",
)
SCORE = one_of(*SCORES)


@dataclass(frozen=True)
class Recipe:
    """A model, a task, an objective, and how long and how to train."""

    model: str = option(MISSING, NAME, "a hub name, also NAME@REVISION, a folder, or a .gguf file")
    task: str = option(
        MISSING,
        NAME,
        "gsm8k, gsm8k@REVISION, gsm8k:FOLDER, gym:NAME (reasoning-gym), toy:NAME, or a .jsonl file",
    )
    objective: str = option(
        "tpo", NAME, "a name of tpo.list_objectives(), without a critic, or FILE.py:CLASS (tpo)"
    )
    out: str = option("tpo-output", NAME, "folder of the run (tpo-output)")
    score: str | None = option(
        None, optional(SCORE), "sequence score: sum, mean, ratio, mean_ratio (ratio for tpo)"
    )
    eta: float | None = option(None, optional(POSITIVE), "temperature of the target")
    objective_options: dict[str, Any] = option(dict, TABLE, "options of the objective, as JSON")
    learning_rate: float = option(1e-5, POSITIVE, "of AdamW (1e-5)")
    max_grad_norm: float = option(1.0, NONNEGATIVE, "gradient-norm clip (1); 0 disables")
    skip_zero_gradient: bool = option(
        True,
        BOOL,
        "skip zero-gradient steps; otherwise Adam's momentum moves the policy there (yes)",
    )
    prompts: int = option(16, COUNT, "per rollout batch")
    group_size: int = option(16, COUNT, "completions per prompt, K")
    epochs: int = option(1, COUNT, "epochs per rollout batch, TRL's num_iterations (1)")
    steps: int = option(100, COUNT, "optimiser steps (100)")
    batches: int = option(
        0,
        WHOLE,
        "rollout batches, instead of --steps; --eval-every and --save-every count them too",
    )
    micro_batch: int | None = option(
        None,
        MICRO_BATCH,
        "completions per forward and backward pass and device, or auto: on a GPU the most that fit the memory, "
        "on a CPU one group (auto)",
    )
    max_tokens: int = option(256, COUNT, "per completion")
    temperature: float = option(1.0, POSITIVE, "of sampling (1.0)")
    beta: float = option(0.0, NONNEGATIVE, "strength of the KL to the initial model")
    lora: int = option(0, WHOLE, "rank of LoRA; 0 trains all weights")
    seed: int = option(0, WHOLE, "of sampling and prompts' order (0)")
    task_options: dict[str, Any] = option(dict, TABLE, "options of a gym dataset or a toy, as JSON")
    scorer: str | None = option(
        None,
        optional(NAME),
        "for a .jsonl task: exact (without one), number, contains, gsm8k, or module:function",
    )
    hint: str | None = option(None, optional(TEXT), "added to every prompt")
    extract: str = option(
        "tag", one_of(*EXTRACT), "how a gym answer is found: tag, number or text (tag)"
    )
    threshold: float | None = option(
        None, optional(FINITE), "a score above it counts 1, any other 0"
    )
    size: int = option(2000, COUNT, "prompts of a gym task or a toy (2000)")
    held_out: int = option(100, COUNT, "prompts kept for evaluation (100)")
    eval_every: int = option(0, WHOLE, "steps between evaluations (before and after only)")
    eval_samples: int = option(8, COUNT, "completions per held-out prompt for pass@k (8)")
    eval_kl: bool = option(False, BOOL, "measure the final KL from the initial model")
    save_every: int = option(50, WHOLE, "steps between checkpoints (50); 0 keeps none")
    discard_model: bool = option(False, BOOL, "keep logs and results only, not the weights")
    timeout: float = option(10.0, POSITIVE, "seconds for the score of one completion (10)")
    scorers: int = option(2, COUNT, "processes that score completions (2)")
    isolate: str = option("auto", ISOLATE, "of scorers: auto (gym tasks alone), bwrap or none")
    scorer_memory: float = option(4.0, POSITIVE, "GiB for a process that scores (4)")
    scorer_cpu: float | None = option(None, optional(POSITIVE), "CPU seconds a score (4 x timeout)")
    drop_truncated: bool = option(False, BOOL, "leave truncated completions out of their group")
    report_to: str = option("none", NAME, "tensorboard, wandb or trackio (none)")
    samples: int = option(0, WHOLE, "completions to show with every step (0)")
    vllm: bool = option(False, BOOL, "sample with vLLM")
    cpu: bool = option(False, BOOL, "train on the CPU")
    trl: dict[str, Any] = option(dict, TABLE, "further options of TRL's GRPOConfig, as JSON")

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
    def sandbox(self) -> Sandbox:
        """What the processes that score may use."""
        return Sandbox(self.isolate, self.scorer_memory, self.scorer_cpu)

    @property
    def of_task(self) -> dict[str, Any]:
        """The options of the task besides `task_options`."""
        names = ("scorer", "hint", "extract", "threshold", "size", "held_out")
        return {name: getattr(self, name) for name in names}

    def config(self) -> TargetPolicyConfig:
        """TRL's options for this recipe."""
        from tpo.llm.runs.trl_options import trl_config

        return trl_config(self)

    def to_dict(self) -> dict[str, Any]:
        """As JSON and YAML hold it."""
        return asdict(self)


KINDS = kinds(Recipe)
"""What each option of a recipe accepts."""
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
        is_default = value in (None, "", {}, _DEFAULTS[name])
        if accepted is not None and name not in accepted and not is_default:
            raise ValueError(
                f"{name} is {value!r}, and the task {made.task} does not take it: "
                f"it takes {', '.join(accepted)}"
            )


def typed_option(name: str, value: Any) -> Any:
    """The value of an option of a recipe, in the option's type."""
    return KINDS[name].value(name, value)


_DEFAULTS = {f.name: f.default for f in fields(Recipe)}


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
    names = [*(f.name for f in fields(Recipe)), "preset", *also_known]
    for name in options:
        if name not in names:
            hint = close_match(name, names)
            raise ValueError(f"unknown option {name!r}.{hint} Options: {', '.join(names)}")

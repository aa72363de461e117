"""Recipe: all options of a training run as one value; presets, YAML, flags."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tpo.checks import close_match
from tpo.llm.objective_options import check_group
from tpo.llm.runs.launch import processes
from tpo.llm.tasks import OPTIONS
from tpo.llm.tasks import kind as kind_of_task
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


@dataclass(frozen=True)
class Recipe:
    """A model, a task, an objective, and how long and how to train."""

    model: str
    """a hub name, also NAME@REVISION, a folder, or a .gguf file"""
    task: str
    objective: str = "tpo"
    out: str = "tpo-output"
    score: str | None = None
    eta: float | None = None
    objective_options: dict[str, Any] = field(default_factory=dict)
    learning_rate: float = 1e-5
    max_grad_norm: float = 1.0
    """gradient-norm clip; 0 disables"""
    skip_zero_gradient: bool = True
    """skip a step whose gradient is zero; otherwise Adam's momentum moves the policy"""
    prompts: int = 16
    """per rollout batch"""
    group_size: int = 16
    epochs: int = 1
    """per rollout batch (TRL's num_iterations)"""
    steps: int = 100
    """optimiser steps, one per epoch of a rollout batch"""
    batches: int = 0
    """rollout batches. If given, steps is batches x epochs, and eval_every and save_every count batches"""
    micro_batch: int | None = None
    """completions per forward and backward pass and device. None or "auto": on a GPU the most whole groups that
    fit the free memory, measured at the first step; on a CPU one group, since more save no time there"""
    max_tokens: int = 256
    temperature: float = 1.0
    beta: float = 0.0
    """strength of the KL to the initial model"""
    lora: int = 0
    """rank; 0 trains all weights"""
    seed: int = 0
    task_options: dict[str, Any] = field(default_factory=dict)
    scorer: str | None = None
    hint: str | None = None
    extract: str = "tag"
    threshold: float | None = None
    size: int = 2000
    held_out: int = 100
    eval_every: int = 0
    """steps, or rollout batches where `batches` is given; 0 evaluates before and after only"""
    eval_samples: int = 8
    """completions per held-out prompt for pass@k"""
    eval_kl: bool = False
    """whether the last evaluation measures the KL from the initial model"""
    save_every: int = 50
    """counted like eval_every; 0 keeps no checkpoint, and an interrupted run starts again"""
    discard_model: bool = False
    """keep logs and results only"""
    timeout: float = 10.0
    """seconds for the score of one completion"""
    scorers: int = 2
    """processes that score completions"""
    drop_truncated: bool = False
    report_to: str = "none"
    samples: int = 0
    """completions to show with every line of progress"""
    vllm: bool = False
    cpu: bool = False
    trl: dict[str, Any] = field(default_factory=dict)
    """further options of TRL's GRPOConfig"""

    def __post_init__(self) -> None:
        for name in ("prompts", "steps", "max_tokens", "epochs", "eval_samples", "scorers"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}, expected at least 1")
        counts = ("batches", "eval_every", "save_every", "lora", "samples", "seed")
        for name in (*counts, "max_grad_norm"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} is {getattr(self, name)}, expected 0 or more")
        if self.batches:
            object.__setattr__(self, "steps", self.in_steps(self.batches))
        if self.micro_batch is not None and self.micro_batch < 1:
            raise ValueError(f"micro_batch is {self.micro_batch}, expected at least 1, or auto")
        check_group(self.objective, "group_size", self.group_size)
        for name in ("learning_rate", "temperature", "timeout"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} is {getattr(self, name)}, expected a number above 0")
        for name in self.trl:
            if name in _TYPES:
                raise ValueError(f"trl holds {name!r}, which is an option of its own: give {name}")
        rows, per_step = self.prompts * self.group_size, self.rows_per_step
        if rows % per_step:
            fits = [m for m in range(1, rows + 1) if rows % (m * processes()) == 0]
            whole = [m for m in fits if m % self.group_size == 0] or fits
            near = max(
                (m for m in whole if m <= self.rows_per_device), default=min(whole, default=0)
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

    def config(self) -> TargetPolicyConfig:
        """TRL's options for this recipe."""
        from tpo.llm.runs.trl_options import trl_config

        return trl_config(self)

    def to_dict(self) -> dict[str, Any]:
        """As JSON and YAML hold it."""
        return asdict(self)


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
    if name == "micro_batch" and value == "auto":
        return None
    kind, optional = _TYPES[name]
    return None if value is None and optional else typed_value(kind, name, value)


def typed_value(kind: str, name: str, value: Any) -> Any:
    """A value as an int, float, str, ...; YAML reads 1e-5, which has no point, as text."""
    try:
        if kind in ("int", "float") and not isinstance(value, bool):
            number = float(value)
            if kind == "float":
                return number
            if number.is_integer():
                return int(number)
        elif type(value).__name__ == kind:
            return value
    except (TypeError, ValueError):
        pass
    auto = " or auto" if name == "micro_batch" else ""
    raise ValueError(f"{name} is {value!r}, expected {_EXPECTED[kind]}{auto}")


_TYPES = {
    f.name: (str(f.type).partition(" ")[0].partition("[")[0], "None" in str(f.type))
    for f in fields(Recipe)
}
"""The type of each option (int, float, str, bool or dict), and whether it may be None."""
_DEFAULTS = {f.name: f.default for f in fields(Recipe)}
_EXPECTED = {
    "int": "a whole number",
    "float": "a number",
    "str": "text",
    "bool": "true or false",
    "dict": "name: value pairs",
}
"""Each type in an error message."""


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


def read_yaml(path: str) -> dict[str, Any]:
    """The options in a YAML file."""
    import yaml

    if not Path(path).exists():
        raise FileNotFoundError(f"{path} does not exist: give --config an existing YAML file")
    try:
        options = yaml.safe_load(Path(path).read_bytes())
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} is not valid YAML: {' '.join(str(error).split())}") from None
    if not isinstance(options, dict):
        raise ValueError(f"{path} holds a {type(options).__name__}, expected option: value lines")
    return options

"""Options of language-model runs: flags, YAML keys, TRL's config, verl's section and tables are made of them.

A class holds the options that are taken together. `tpo train` takes those of `Recipe`. Marks of an option:

trl           its name in TRL's config, where that is another, or where a class is of `tpo train` alone
tasks         the kinds of task that take it; without it, all do
small         its value in the preset `small`
per_method    a method of a comparison may set it
as_method     a comparison takes it from its methods alone, written like this
may_change    a resume may change it
private       model cards do not show it
"""

from __future__ import annotations

from dataclasses import MISSING, dataclass
from functools import partial
from typing import Any

from tpo.llm.rewards.scorers import EXTRACT
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
    number,
    one_of,
    option,
    optional,
)

MICRO_BATCH = Kind(
    f"{COUNT.accepts}, or auto",
    lambda v: v is None or COUNT.allowed(v),
    lambda v: None if v in (None, "auto") else COUNT.read(v),
    symbol="MICRO_BATCH",
)
LIMIT = number("a number above 0, at most 1e6", lambda v: 0 < v <= 1e6)
"""Of seconds or GiB: what every call of the system that takes one can count."""
ISOLATE = one_of("auto", "bwrap", "none")
REPORTERS = ("azure_ml", "clearml", "codecarbon", "comet_ml", "dagshub", "dvclive", "flyte", "kubeflow",
             "mlflow", "neptune", "swanlab", "tensorboard", "trackio", "wandb")  # fmt: skip
"""The loggers that transformers knows."""
REPORT_TO = Kind(
    "none, all, or loggers with commas between, of " + ", ".join(REPORTERS),
    lambda v: v in ("none", "all") or (isinstance(v, str) and {*v.split(",")} <= {*REPORTERS}),
    names=lambda: REPORTERS,
    symbol="NAMES",
)
SCORE = optional(one_of(*SCORES))
per_method = partial(option, per_method=True)
aside = partial(option, may_change=True, private=True)


@dataclass(frozen=True)
class ModelOptions:
    """The model and the task."""

    model: str = option(
        MISSING, NAME, "a hub name, also NAME@REVISION, a folder, or a .gguf file", private=True
    )
    task: str = option(
        MISSING,
        NAME,
        "gsm8k, gsm8k@REVISION, gsm8k:FOLDER, gym:NAME (reasoning-gym), toy:NAME, or a .jsonl file",
    )


@dataclass(frozen=True)
class ObjectiveOptions:
    """The objective; of every trainer."""

    objective: str = option(
        "tpo", NAME, "a name of tpo.list_objectives(), without a critic, or FILE.py:CLASS"
    )
    objective_options: dict[str, Any] = option(
        dict, TABLE, "options of the objective", as_method="grpo:clip=0.1"
    )
    score: str | None = per_method(
        None,
        SCORE,
        "sequence score: sum, mean, ratio, mean_ratio",
        unset="ratio for tpo",
        as_method="tpo:score=mean",
    )
    eta: float | None = per_method(
        None,
        optional(POSITIVE),
        "temperature of the target",
        unset="the objective's own",
        as_method="tpo:eta=0.5",
    )
    skip_zero_gradient: bool = per_method(
        True, BOOL, "skip zero-gradient steps; otherwise Adam's momentum moves the policy there"
    )


@dataclass(frozen=True)
class GroupOptions:
    """Which completions are in a group; of `tpo train` and TRL's config."""

    drop_truncated: bool = option(
        False, BOOL, "leave truncated completions out of groups", trl="drop_truncated_completions"
    )


@dataclass(frozen=True)
class LogOptions:
    """What logs count; of TRL's config and verl's section."""

    success: float = option(0.5, FINITE, "a score above it counts as solved in the logs")
    patience: int = option(
        10, WHOLE, "rollout batches with hardly an informative group before a warning"
    )


@dataclass(frozen=True)
class TrainerOptions:
    """How the trainer works; of TRL's config alone."""

    reward_timeout: float | None = option(
        None,
        optional(LIMIT),
        "seconds for a call of a reward function, which then runs in a thread, where signal.alarm "
        "(math-verify) does not work",
        unset="no limit",
    )
    fast_sampling: bool = option(
        True, BOOL, "sample with tpo.llm.sampling, with a second copy of the weights, where it can"
    )
    shared_prompts: bool = option(
        True, BOOL, "read a prompt once per group, where a micro-batch holds whole groups"
    )
    micro_batch: int | None = option(
        None,
        optional(WHOLE),
        "completions per forward and backward pass, in whole groups; halved where memory runs out; 0 measures "
        "what fits; needs gradient_accumulation_steps=1",
        unset="TRL's own",
    )
    weight_dithering: bool = option(
        True, BOOL, "under bf16, random low bits, so that small updates act as in float32"
    )
    disable_dropout: bool = option(True, BOOL, "switch dropout off")


@dataclass(frozen=True)
class TrainingOptions:
    """Training; of `tpo train` alone."""

    learning_rate: float = per_method(1e-5, POSITIVE, "rate of AdamW", trl="learning_rate")
    max_grad_norm: float = per_method(
        1.0, NONNEGATIVE, "gradient-norm clip; 0 disables", trl="max_grad_norm"
    )
    beta: float = per_method(
        0.0, NONNEGATIVE, "strength of the KL to the initial model", trl="beta"
    )
    prompts: int = option(16, COUNT, "prompts per rollout batch", small=4)
    group_size: int = option(16, COUNT, "completions per prompt, K", trl="num_generations", small=8)
    epochs: int = per_method(
        1, COUNT, "epochs per rollout batch, TRL's num_iterations", trl="num_iterations"
    )
    steps: int = option(100, COUNT, "optimiser steps", trl="max_steps")
    batches: int = option(
        0, WHOLE, "rollout batches, which --eval-every and --save-every then count", unset="--steps"
    )
    micro_batch: int | None = option(
        None,
        MICRO_BATCH,
        "completions per forward and backward pass and device, or auto: on a GPU the most that fit the memory, "
        "on a CPU one group",
        unset="auto",
    )
    max_tokens: int = option(
        256, COUNT, "tokens of a completion", trl="max_completion_length", small=64
    )
    temperature: float = option(1.0, POSITIVE, "temperature of sampling", trl="temperature")
    lora: int = option(0, WHOLE, "rank of LoRA; 0 trains all weights")
    seed: int = option(0, WHOLE, "seed of sampling and of the prompts' order", trl="seed")
    vllm: bool = option(False, BOOL, "sample with vLLM", trl="use_vllm")
    cpu: bool = option(False, BOOL, "train on the CPU", private=True)
    trl: dict[str, Any] = option(dict, TABLE, "further options of TRL's GRPOConfig")


@dataclass(frozen=True)
class PromptOptions:
    """The prompts of a task, and what of a completion is scored."""

    task_options: dict[str, Any] = option(
        dict, TABLE, "options of a gym dataset or a toy", tasks=("gym", "toy")
    )
    scorer: str | None = option(
        None,
        optional(NAME),
        "for a .jsonl task: exact, number, contains, gsm8k, or module:function",
        unset="exact",
        tasks=("jsonl",),
    )
    hint: str | None = option(
        None,
        optional(TEXT),
        "added to every prompt; toys have examples instead",
        unset="one that suits the task",
        tasks=("gsm8k", "gym", "jsonl"),
    )
    extract: str = option(
        "tag", one_of(*EXTRACT), "how a gym answer is found: tag, number or text", tasks=("gym",)
    )
    threshold: float | None = option(
        None, optional(FINITE), "a score above it counts 1, any other 0", tasks=("gym", "jsonl")
    )
    size: int = option(2000, COUNT, "prompts of a gym task or a toy", tasks=("gym", "toy"))
    held_out: int = option(100, COUNT, "prompts kept for evaluation")


@dataclass(frozen=True)
class SandboxOptions:
    """What each process that scores may use."""

    isolate: str = aside(
        "auto",
        ISOLATE,
        "bwrap (no network, read-only files, private /tmp), none, or auto: bwrap for gym tasks, if it works",
    )
    scorer_memory: float = aside(4.0, LIMIT, "GiB beyond what it uses before it loads the scorer")
    scorer_cpu: float | None = aside(
        None, optional(LIMIT), "CPU seconds for one completion", unset="4 x timeout"
    )


@dataclass(frozen=True)
class ScoringOptions(SandboxOptions):
    """How completions are scored."""

    timeout: float = option(10.0, LIMIT, "seconds for one completion", may_change=True)
    scorers: int = aside(2, COUNT, "processes that score completions")


@dataclass(frozen=True)
class OutputOptions:
    """Evaluation, and what is kept and shown."""

    out: str = aside("tpo-output", NAME, "folder of the run")
    eval_every: int = option(0, WHOLE, "steps between evaluations", unset="before and after only")
    eval_samples: int = option(8, COUNT, "completions per held-out prompt for pass@k")
    eval_kl: bool = option(False, BOOL, "measure the final KL from the initial model")
    save_every: int = option(50, WHOLE, "steps between checkpoints; 0 keeps none", may_change=True)
    discard_model: bool = aside(False, BOOL, "keep logs and results only, not the weights")
    report_to: str = aside("none", REPORT_TO, "tensorboard, wandb or trackio")
    samples: int = aside(0, WHOLE, "completions to show with every step")


TRL = (ObjectiveOptions, GroupOptions, LogOptions, TrainerOptions)
"""What `TargetPolicyConfig` adds to the options of TRL."""
VERL = (ObjectiveOptions, LogOptions)
"""What verl's section has."""

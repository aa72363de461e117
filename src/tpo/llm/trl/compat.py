"""What the trainer relies on inside TRL: its hooks, checked at start-up, and its buffered micro-batches."""

from __future__ import annotations

import inspect
import warnings
from typing import Any

import torch
import trl

from tpo.llm.objective_options import check_rollout_log_probs
from tpo.llm.packed import attention
from tpo.llm.sampling.sampler import Sampler, fits

Tensor = torch.Tensor

HOOKS = (
    "training_step",
    "_generate_single_turn",
    "_calculate_rewards",
    "_generate_and_score_completions",
    "_prepare_inputs",
    "compute_loss",
    "_compute_loss",
    "_get_per_token_logps_and_entropies",
)
_TEXT_PARAMETERS = ("self", "model", "input_ids", "attention_mask", "logits_to_keep", "batch_size")


def check_hooks(trainer: type) -> None:
    """If TRL lacks a method that is overridden, fail at start-up and name the versions that work."""
    missing = [name for name in HOOKS if not callable(getattr(trainer, name, None))]
    if missing or trl.__version__ == "1.15.0":
        problem = f"has no {', '.join(missing)}" if missing else "crashes in GRPO itself"
        raise ImportError(
            f"TRL {trl.__version__} {problem}: install trl>=1.14,!=1.15.0 (1.14.0 and 1.16.0 are tested)"
        )


def forward_options() -> tuple[str, ...]:
    """Names of batch entries that TRL's forward pass accepts besides the ids (images and the like)."""
    accepted = inspect.signature(trl.GRPOTrainer._get_per_token_logps_and_entropies).parameters
    return tuple(k for k in accepted if k not in _TEXT_PARAMETERS and not k.startswith("compute_"))


def regrouped(batches: list[dict[str, Any]], K: int) -> list[dict[str, Any]]:
    """The micro-batches with each group in one of them, groups in the order in which they first came.

    TRL shuffles rows before it splits them; this keeps the shuffle of groups and undoes that within groups.
    """
    groups = torch.cat([batch["row"] for batch in batches]) // K
    first = {g: i for i, g in reversed(list(enumerate(groups.tolist())))}
    order = torch.tensor(
        sorted(range(len(groups)), key=lambda i: first[int(groups[i])]), device=groups.device
    )
    size = len(batches[0]["row"])
    result: list[dict[str, Any]] = [dict(batch) for batch in batches]
    for name, value in batches[0].items():
        if isinstance(value, torch.Tensor) and value.ndim:
            joined = torch.cat([batch[name] for batch in batches])[order]
            for i, batch in enumerate(result):
                batch[name] = joined[i * size : (i + 1) * size]
    return result


def realign_steps(trainer: Any) -> None:
    """After a resume, count micro-steps from the start of the run, not from the resume.

    TRL counts from 0 and would lose its position in a rollout batch. If the checkpoint lies inside a rollout
    batch, the completions of that batch are sampled again, and a warning says so.
    """
    if trainer._step or not trainer.state.global_step or not trainer.model.training:
        return
    trainer._step = trainer.state.global_step * trainer.args.gradient_accumulation_steps
    every = trainer.args.steps_per_generation * trainer.num_iterations
    if trainer._step % every:
        steps = max(1, every // trainer.args.gradient_accumulation_steps)
        warnings.warn(
            f"resumed at step {trainer.state.global_step}, inside a rollout batch: its completions are sampled "
            "again, so the run will differ from an uninterrupted one. To resume exactly, set save_steps to a "
            f"multiple of {steps}",
            stacklevel=2,
        )


def can_pack(trainer: Any) -> bool:
    """Whether a group can be read as one sequence: on one process, with torch's own attention, unwrapped."""
    model = trainer.accelerator.unwrap_model(trainer.model)
    return bool(
        trainer.args.shared_prompts
        and trainer.accelerator.num_processes == 1
        and _is_whole(trainer)
        and not getattr(trainer, "use_liger_kernel", False)
        and not trainer.args.cast_lm_head_to_fp32
        and fits(model)
        and model.config._attn_implementation in (attention.NAME, attention.PLAIN)
    )


def _is_whole(trainer: Any) -> bool:
    """Whether each process holds all of the weights: no FSDP, no DeepSpeed."""
    return trainer.accelerator.distributed_type.value in ("NO", "MULTI_GPU", "MULTI_CPU")


def make_sampler(trainer: Any) -> Sampler | None:
    """The fast sampler with a trainer's sampling options; None if only TRL's own sampling supports them.

    Neither reports log-probs: an objective that needs them is an error, unless a `rollout_func` samples.
    """
    known = getattr(trainer, "rollout_func", None) is not None
    advice = "set use_vllm, give the trainer a rollout_func, or leave correct out"
    check_rollout_log_probs(trainer.objective, known, advice)
    args, config = trainer.args, trainer.generation_config
    model = trainer.accelerator.unwrap_model(trainer.model)
    supported = {"top_p": 1.0, "top_k": 0, "min_p": None, "repetition_penalty": 1.0}
    unsupported = args.generation_kwargs or args.cache_implementation or args.cast_lm_head_to_fp32
    if (
        not args.fast_sampling
        or trainer.use_vllm
        or getattr(args, "use_transformers_continuous_batching", False)
        or unsupported
        or any(getattr(trainer, name) != value for name, value in supported.items())
        or not _is_whole(trainer)
        or not fits(model)
    ):
        return None
    ends = config.eos_token_id
    return Sampler(
        model,
        ends=[ends] if isinstance(ends, int) else ends,
        pad=config.pad_token_id,
        tokens=trainer.max_completion_length,
        rows=args.per_device_train_batch_size * args.steps_per_generation,
        dtype=torch.bfloat16 if args.bf16 else torch.float16 if args.fp16 else None,
    )


def token_mask(batch: dict[str, Any]) -> Tensor:
    """[n, T] True on tokens that the policy chose: not padding, not a tool's answer."""
    mask: Tensor = batch["completion_mask"]
    if "tool_mask" in batch:
        mask = mask * batch["tool_mask"]
    return mask.bool()


def rollout_log_probs(output: dict[str, Any]) -> Tensor | None:
    """[n, T] log-probs as the sampling engine reported them; the trainer's own where it reported none."""
    reported: Tensor | None = output.get("sampling_per_token_logps")
    if reported is None:
        return None
    old = output.get("old_per_token_logps")
    missing = reported.isnan()
    return torch.where(missing, torch.zeros_like(reported) if old is None else old, reported)

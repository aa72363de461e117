"""TargetPolicyConfig: TRL's GRPO options, without those that cannot work, and the choice of an objective."""

from __future__ import annotations

import os
from dataclasses import dataclass, fields
from typing import Any

from trl import GRPOConfig

from tpo.llm.objective_options import (
    accepted_options,
    build_objective,
    check_group,
    check_sampler,
)
from tpo.llm.run_options import TRL
from tpo.llm.trl.field_types import check_types, trl_name, with_fields
from tpo.objectives import Objective
from tpo.options import TABLE, declared, optional

_BELONGS_TO_OBJECTIVE = {
    "loss_type": "objective='grpo', 'dr_grpo', 'dapo', 'cispo', 'sapo', 'vespo', ...",
    "importance_sampling_level": "objective='gspo' for one ratio per sequence",
    "scale_rewards": "objective='dr_grpo' for scores without sigma",
    "multi_objective_aggregation": "objective='gdpo' to standardise each reward by itself",
    "epsilon": "objective_options={'clip': ...} of an objective that clips",
    "epsilon_high": "objective='dapo' with objective_options={'clip_high': ...}",
    "delta": "objective='cispo' or 'sapo', which bound the ratio",
    "sapo_temperature_pos": "objective='sapo' with objective_options={'tau_positive': ...}",
    "sapo_temperature_neg": "objective='sapo' with objective_options={'tau_negative': ...}",
    **{
        f"vespo_{letter}_{side[:3]}": f"objective='vespo' with objective_options={{'{letter}_{side}': ...}}"
        for letter in ("k", "lambda")
        for side in ("positive", "negative")
    },
}
"""Options of TRL's loss, and what to set instead."""

_IMPOSSIBLE = {
    "off_policy_mask_threshold": "it drops rows after the target is made, so that p and q no longer match; "
    "objective='opsm' has this mask",
    "top_entropy_quantile": "it drops tokens, so that the gradient is no longer that of the objective",
    "entropy_coef": "the gradient would no longer be the objective's",
    "use_adaptive_entropy": "the gradient would no longer be the objective's",
    **dict.fromkeys(
        ("entropy_coef_min", "entropy_coef_max", "entropy_coef_delta", "entropy_target"),
        "there is no entropy bonus",
    ),
    "vllm_importance_sampling_mode": "a ratio on single rows or tokens breaks Σ(p - q) = 0; "
    "a candidate with an extreme ratio is dropped whole",
}
"""Options that cannot work with objectives over whole groups, and why."""


@dataclass
@with_fields(*TRL)
class TargetPolicyConfig(GRPOConfig):  # type: ignore[misc]
    """Options of `TargetPolicyTrainer`: those of TRL's `GRPOConfig`, and which objective to train.

    What differs from `GRPOConfig` by default: the loss is the objective's. Dropout is off, since the forward
    pass without gradient runs in train mode, and dropout would change its log-probs. A zero-gradient step is
    skipped (`skip_zero_gradient`), but not where a KL (`beta`) or a router's loss has a gradient too, nor
    under DeepSpeed, which makes its own steps. Under bf16, weights are dithered (`weight_dithering`).

    `beta` is the strength of the KL to the reference for every objective, and `use_bias_correction_kl` (TRL's
    default) its `kl_correction`. `mask_truncated_completions` is TRL's: a truncated completion counts in its
    group's mean and sigma, but has no gradient. `drop_truncated_completions` leaves it out of its group.
    """

    def __post_init__(self) -> None:
        check_types(self)
        options = {trl_name(f): f.metadata["kind"] for c in TRL for f in declared(c).values()}
        for name, kind in options.items():
            if kind is not TABLE:
                kind.check(name, getattr(self, name))
        self._reject_options()
        self._check_group_size()
        super().__post_init__()
        for name in (name for name, kind in options.items() if kind is TABLE):
            optional(TABLE).check(name, getattr(self, name))  # TRL has read its text
        self._check_micro_batch()
        check_sampler(self.build(), self.use_vllm, "use_vllm")

    def build(self) -> Objective:
        """The objective that these options name; a wrong option names itself and what is accepted."""
        options: dict[str, Any] = dict(self.objective_options or {})
        options |= {k: v for k in ("score", "eta") if (v := getattr(self, k)) is not None}
        accepted = accepted_options(self.objective)
        if "kl_correction" in accepted and self.beta:
            options.setdefault("kl_correction", self.use_bias_correction_kl)
        if "reward_weights" in accepted and self.reward_weights:
            options.setdefault("reward_weights", tuple(self.reward_weights))
        if "max_length" in accepted:
            # of any completion, not the longest of a batch
            options.setdefault("max_length", float(self.max_completion_length or 0))
        advice = "set beta=... there, so that a reference model is kept for it"
        return build_objective(self.objective, options, self.beta, advice)

    def _reject_options(self) -> None:
        defaults = {f.name: f.default for f in fields(GRPOConfig)}
        for name, why in _IMPOSSIBLE.items():
            if name in defaults and getattr(self, name) != defaults[name]:
                raise ValueError(
                    f"{name} is {getattr(self, name)!r}, which cannot work here: {why}. "
                    f"Set {name}={defaults[name]!r}"
                )
        for name, instead in _BELONGS_TO_OBJECTIVE.items():
            if name in defaults and getattr(self, name) != defaults[name]:
                raise ValueError(
                    f"{name} is {getattr(self, name)!r}, but the loss is the objective's: "
                    f"set {name}={defaults[name]!r}, and {instead}"
                )
        if self.mask_truncated_completions and self.drop_truncated_completions:
            raise ValueError(
                "mask_truncated_completions and drop_truncated_completions are both True: choose one. "
                "The first counts the scores of truncated completions in their group, the second does not"
            )
        parallel = self.parallelism_config
        for name in ("cp_size", "sp_size"):
            size = getattr(parallel, name, 1) if parallel is not None else 1
            if size is not None and size > 1:
                raise ValueError(
                    f"parallelism_config.{name} is {size}: a completion must be whole on one rank. "
                    f"Set {name}=1 and use data parallelism"
                )

    def _check_micro_batch(self) -> None:
        rows, K = self.per_device_train_batch_size, self.num_generations
        if self.micro_batch is None:
            return
        if self.micro_batch < 0 or self.micro_batch % K:
            raise ValueError(
                f"micro_batch is {self.micro_batch}, expected a multiple of num_generations={K}, or 0 for as "
                "many as fit"
            )
        steps = (self.gradient_accumulation_steps, self.steps_per_generation)
        if steps != (1, 1) or rows % K:
            raise ValueError(
                f"micro_batch is {self.micro_batch} with gradient_accumulation_steps={steps[0]}, "
                f"steps_per_generation={steps[1]} and per_device_train_batch_size={rows}: set both to 1 and "
                f"the last to a multiple of num_generations={K}"
            )

    def _check_group_size(self) -> None:
        """Groups must be whole in a rollout batch; the message names the nearest sizes that work."""
        K = self.num_generations
        if not isinstance(K, int):
            raise ValueError(f"num_generations is {K!r}, expected a whole number of at least 2")
        check_group(self.objective, "num_generations", K)
        processes = int(os.environ.get("WORLD_SIZE", "1"))
        rows = self.per_device_train_batch_size * processes
        total = self.generation_batch_size or rows * (
            self.steps_per_generation or self.gradient_accumulation_steps
        )
        if total % K:
            near = sorted({max(K, total // K * K), (total // K + 1) * K})
            fits = [k for k in range(K, 1, -1) if total % k == 0][:1]
            also = f", or num_generations={fits[0]}" if fits else ""
            made_of = (
                f"generation_batch_size={total}"
                if self.generation_batch_size
                else f"per_device_train_batch_size={self.per_device_train_batch_size} x {processes} "
                f"processes x {total // rows} steps per generation"
            )
            raise ValueError(
                f"num_generations is {K}, and a rollout batch has {total} completions "
                f"({made_of}), so a group would be split: make it "
                f"{' or '.join(map(str, near))} completions{also}"
            )

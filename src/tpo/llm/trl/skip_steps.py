"""Skipped steps: with a gradient that is not finite, and, with `skip_zero_gradient`, with a zero gradient.

A gradient that is NaN or infinite is reported with the groups that caused it. A gradient is zero if no group of
the batch is informative. Adam would still move the policy, by the momentum of earlier batches. A skipped step
changes neither weights nor momentum.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from transformers import TrainerCallback

from tpo.llm.packed import attention

if TYPE_CHECKING:
    from tpo.llm.trl.rollout_batch import RolloutBatch


class MicroStep(NamedTuple):
    """A micro-batch of the current optimiser step, and the coefficients of its tokens."""

    rollouts: RolloutBatch
    inputs: dict[str, Any]
    rows: torch.Tensor
    c: torch.Tensor


class SkipSteps(TrainerCallback):  # type: ignore[misc]
    """Before each optimiser step: drops the gradients if the step is skipped, so that nothing changes."""

    def __init__(self, trainer: Any) -> None:
        """For the steps of this trainer."""
        self.trainer = trainer
        self.nonfinite = 0
        """skipped steps whose gradient was not finite"""
        self.zero_gradient = 0
        """skipped steps whose gradient was zero"""
        self.reports: list[dict[str, Any]] = []
        """of each step whose gradient was not finite: its groups and their prompts"""
        self._micro_steps: list[MicroStep] = []
        self._nonfinite_groups: list[tuple[RolloutBatch, int]] = []

    def record(
        self,
        rollouts: RolloutBatch,
        inputs: dict[str, Any],
        rows: torch.Tensor,
        log_probs: torch.Tensor,
        c: torch.Tensor,
    ) -> None:
        """Remember a micro-batch, and those of its groups whose coefficients or log-probs are not finite."""
        self._micro_steps.append(MicroStep(rollouts, inputs, rows, c))
        if not torch.isfinite((log_probs * c).sum()):
            groups = rollouts.nonfinite_groups(rows, log_probs, c)
            self._nonfinite_groups += [(rollouts, g) for g in groups]

    def reset(self) -> None:
        """Forget the micro-batches of the current step: it is over, or repeated from its start."""
        self._micro_steps, self._nonfinite_groups = [], []

    def on_pre_optimizer_step(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Skip the step, or let it be made."""
        nonfinite, nonzero = self._nonfinite_and_nonzero()
        zero = args.skip_zero_gradient and not nonfinite and not nonzero
        if nonfinite:
            self._skip_nonfinite(state.global_step)
        if zero:
            self._drop_gradients()
            self.zero_gradient += 1
        self.trainer.metric_log.add(skipped_steps=float(nonfinite), zero_gradient_steps=float(zero))
        self.reset()

    def _nonfinite_and_nonzero(self) -> tuple[bool, bool]:
        """Whether a gradient of any rank is not finite, and whether one is not zero.

        Without an informative group, later epochs may have a gradient of rounding errors: it counts as zero.
        """
        accelerator = self.trainer.accelerator
        gradients = [p.grad for p in self.trainer.model.parameters() if p.grad is not None]
        norms = torch.zeros(1, device=accelerator.device)
        if gradients:
            norms = torch.stack([norm.float() for norm in torch._foreach_norm(gradients)])
        informative = getattr(self.trainer, "aux_loss_enabled", False) or any(
            micro_step.rollouts.informative for micro_step in self._micro_steps
        )
        hidden = not gradients  # an engine that makes its own steps
        flags = torch.stack([~norms.isfinite().all(), norms.any() & informative | hidden]).float()
        nonfinite, nonzero = accelerator.reduce(flags, reduction="sum").tolist()
        return nonfinite > 0, nonzero > 0

    def _drop_gradients(self) -> None:
        args, accelerator = self.trainer.args, self.trainer.accelerator
        if args.fp16 and not args.max_grad_norm:
            accelerator.unscale_gradients()  # its scaler steps only where it has seen gradients
        for parameter in self.trainer.model.parameters():
            parameter.grad = None

    def _skip_nonfinite(self, step: int) -> None:
        """Skip the step, and warn of the groups that caused it."""
        self._drop_gradients()
        self.nonfinite += 1
        culprits = self._nonfinite_groups or self._search_groups()
        groups = sorted({g for _, g in culprits})
        texts = [_prompt(rollouts, g) for rollouts, g in culprits]
        self.reports.append({"step": step, "groups": groups, "prompts": texts})
        where = f"group {', '.join(map(str, groups))}" if culprits else "another rank"
        prompts = "; ".join(sorted({text for text in texts if text}))
        warnings.warn(
            f"step {step} was skipped ({self.nonfinite} so far): its gradient is NaN or infinite, because of "
            f"{where}{f' (prompt: {prompts})' if prompts else ''}. Weights and optimiser are unchanged. "
            "If this continues, lower learning_rate or max_grad_norm",
            stacklevel=2,
        )

    def _search_groups(self) -> list[tuple[RolloutBatch, int]]:
        """Groups whose own gradient is not finite, tried one by one with the weights of the step."""
        found = []
        for micro_step in self._micro_steps:
            groups = micro_step.rows // micro_step.rollouts.shape[1]
            for g in torch.unique(groups).tolist():
                if not self._group_is_finite(micro_step, groups == g):
                    found.append((micro_step.rollouts, g))
        return found

    def _group_is_finite(self, micro_step: MicroStep, of_group: torch.Tensor) -> bool:
        model = self.trainer.accelerator.unwrap_model(self.trainer.model)
        n = len(of_group)
        inputs = {
            k: x[of_group] if isinstance(x, torch.Tensor) and x.ndim and len(x) == n else x
            for k, x in micro_step.inputs.items()
        }
        weights = [p for p in model.parameters() if p.requires_grad]
        with attention.cudnn(False):
            log_probs = self.trainer.log_probs.of_batch(model, inputs)[0]
            loss = (micro_step.c[of_group] * log_probs).sum()
            gradients = torch.autograd.grad(loss, weights, allow_unused=True)
        return all(bool(g.isfinite().all()) for g in gradients if g is not None)


def _prompt(rollouts: RolloutBatch, g: int) -> str:
    """The start of a group's prompt; empty if another rank has it."""
    K = rollouts.shape[1]
    for row in range(g * K, (g + 1) * K):
        local = row - rollouts.first_row
        if 0 <= local < len(rollouts.prompts):
            prompt = rollouts.prompts[local]
            text = prompt if isinstance(prompt, str) else str(prompt[-1].get("content", ""))
            return text[:80]
    return ""

"""Steps that are skipped: those with a broken gradient, and, with `skip_zero_gradient`, those with a zero one.

A gradient that is NaN or infinite is reported with the groups that caused it. A gradient is zero if no group of
the batch is informative. Adam would still move the policy, by the momentum of earlier batches. A skipped step
moves nothing, and the momentum stays for the next step.
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
    """A micro-batch of the current optimiser step."""

    rollouts: RolloutBatch
    inputs: dict[str, Any]
    rows: torch.Tensor
    c: torch.Tensor


class SkipSteps(TrainerCallback):  # type: ignore[misc]
    """Before each optimiser step: drop the gradients if the step is skipped, so that nothing moves."""

    def __init__(self, trainer: Any) -> None:
        """Watch this trainer."""
        self.trainer = trainer
        self.skipped = 0
        """steps with a broken gradient"""
        self.zero_gradient = 0
        """steps with a zero gradient that were skipped"""
        self.reports: list[dict[str, Any]] = []
        self._parts: list[MicroStep] = []
        self._broken: list[tuple[RolloutBatch, int]] = []

    def watch(
        self,
        rollouts: RolloutBatch,
        inputs: dict[str, Any],
        rows: torch.Tensor,
        log_probs: torch.Tensor,
        c: torch.Tensor,
    ) -> None:
        """Note a micro-batch, and those of its groups whose coefficients or log-probs are broken."""
        self._parts.append(MicroStep(rollouts, inputs, rows, c))
        if not torch.isfinite((log_probs * c).sum()):
            self._broken += [(rollouts, g) for g in rollouts.broken(rows, log_probs, c)]

    def forget(self) -> None:
        """Drop what was noted of the current step, which is repeated from its start."""
        self._parts, self._broken = [], []

    def on_pre_optimizer_step(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Skip the step, or let it be made."""
        broken, moving = self._broken_and_moving()
        zero = args.skip_zero_gradient and not broken and not moving
        if broken:
            self._skip(state.global_step)
        if zero:
            self._drop()
            self.zero_gradient += 1
        self.trainer.metric_log.note(skipped_steps=float(broken), zero_gradient_steps=float(zero))
        self.forget()

    def _broken_and_moving(self) -> tuple[bool, bool]:
        """Whether a gradient of any rank is not finite, and whether one is not zero.

        Without an informative group, later epochs may have a gradient of rounding errors: it counts as zero.
        """
        accelerator = self.trainer.accelerator
        gradients = [p.grad for p in self.trainer.model.parameters() if p.grad is not None]
        norms = torch.zeros(1, device=accelerator.device)
        if gradients:
            norms = torch.stack([norm.float() for norm in torch._foreach_norm(gradients)])
        informative = getattr(self.trainer, "aux_loss_enabled", False) or any(
            part.rollouts.informative for part in self._parts
        )
        unseen = not gradients  # an engine that steps by itself
        found = torch.stack([~norms.isfinite().all(), norms.any() & informative | unseen]).float()
        broken, moving = accelerator.reduce(found, reduction="sum").tolist()
        return broken > 0, moving > 0

    def _drop(self) -> None:
        args, accelerator = self.trainer.args, self.trainer.accelerator
        if args.fp16 and not args.max_grad_norm:
            accelerator.unscale_gradients()  # its scaler steps only where it has seen gradients
        for parameter in self.trainer.model.parameters():
            parameter.grad = None

    def _skip(self, step: int) -> None:
        self._drop()
        self.skipped += 1
        culprits = self._broken or self._searched()
        groups = sorted({g for _, g in culprits})
        texts = [_prompt(rollouts, g) for rollouts, g in culprits]
        self.reports.append({"step": step, "groups": groups, "prompts": texts})
        where = f"group {', '.join(map(str, groups))}" if culprits else "another rank"
        prompts = "; ".join(sorted({text for text in texts if text}))
        warnings.warn(
            f"step {step} was skipped ({self.skipped} so far): its gradient is NaN or infinite, because of "
            f"{where}{f' (prompt: {prompts})' if prompts else ''}. Weights and optimiser are unchanged. "
            "If this goes on, lower learning_rate or max_grad_norm",
            stacklevel=2,
        )

    def _searched(self) -> list[tuple[RolloutBatch, int]]:
        """Groups whose own gradient is not finite, tried one by one with the weights of the step."""
        found = []
        for part in self._parts:
            groups = part.rows // part.rollouts.shape[1]
            for g in torch.unique(groups).tolist():
                if not self._group_is_finite(part, groups == g):
                    found.append((part.rollouts, g))
        return found

    def _group_is_finite(self, part: MicroStep, own: torch.Tensor) -> bool:
        model = self.trainer.accelerator.unwrap_model(self.trainer.model)
        inputs = {
            k: x[own] if isinstance(x, torch.Tensor) and x.ndim and len(x) == len(own) else x
            for k, x in part.inputs.items()
        }
        weights = [p for p in model.parameters() if p.requires_grad]
        with attention.cudnn(False):
            log_probs = self.trainer.log_probs.of_batch(model, inputs)[0]
            loss = (part.c[own] * log_probs).sum()
            gradients = torch.autograd.grad(loss, weights, allow_unused=True)
        return all(bool(g.isfinite().all()) for g in gradients if g is not None)


def _prompt(rollouts: RolloutBatch, g: int) -> str:
    """The start of a group's prompt; empty if another rank has it."""
    K = rollouts.shape[1]
    for row in range(g * K, (g + 1) * K):
        at = row - rollouts.first_row
        if 0 <= at < len(rollouts.prompts):
            prompt = rollouts.prompts[at]
            text = prompt if isinstance(prompt, str) else str(prompt[-1].get("content", ""))
            return text[:80]
    return ""

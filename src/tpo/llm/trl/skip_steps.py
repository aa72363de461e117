"""Steps that are skipped: those with a broken gradient, and, with `skip_silent`, those with none.

A gradient that is NaN or infinite is reported with the groups that caused it. One that is zero is that of a
batch in which no group carries a signal: nothing in it says where to go, and Adam would move the policy all the
same, by the momentum of earlier batches. Skipped, that momentum waits for the next step.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from transformers import TrainerCallback

from tpo.llm.packed import attention

if TYPE_CHECKING:
    from tpo.llm.trl.rollout_batch import Generation


class Part(NamedTuple):
    """A micro-batch of the current optimiser step."""

    generation: Generation
    inputs: dict[str, Any]
    rows: torch.Tensor
    c: torch.Tensor


class SkipSteps(TrainerCallback):  # type: ignore[misc]
    """Before each optimiser step: drop the gradients if it is to be skipped, so that nothing moves."""

    def __init__(self, trainer: Any) -> None:
        """Watch this trainer."""
        self.trainer = trainer
        self.skipped = 0
        """steps with a broken gradient"""
        self.silent = 0
        """steps without a gradient that were skipped"""
        self.reports: list[dict[str, Any]] = []
        self._parts: list[Part] = []
        self._broken: list[tuple[Generation, int]] = []

    def watch(
        self,
        generation: Generation,
        inputs: dict[str, Any],
        rows: torch.Tensor,
        log_probs: torch.Tensor,
        c: torch.Tensor,
    ) -> None:
        """Note a micro-batch, and its groups that are broken already."""
        self._parts.append(Part(generation, inputs, rows, c))
        if not torch.isfinite((log_probs * c).sum()):
            self._broken += [(generation, g) for g in generation.broken(rows, log_probs, c)]

    def forget(self) -> None:
        """Drop what was noted of the current step, which starts anew."""
        self._parts, self._broken = [], []

    def on_pre_optimizer_step(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Skip or let pass."""
        broken, moving = self._broken_and_moving()
        silent = args.skip_silent and not broken and not moving
        if broken:
            self._skip(state.global_step)
        if silent:
            self._drop()
            self.silent += 1
        self.trainer._note(skipped_steps=float(broken), silent_steps=float(silent))
        self.forget()

    def _broken_and_moving(self) -> tuple[bool, bool]:
        """Whether a gradient of any rank is not finite, and whether one is not zero.

        In a batch that asks for nothing, passes after the first may leave a gradient of rounding errors.
        """
        accelerator = self.trainer.accelerator
        gradients = [p.grad for p in self.trainer.model.parameters() if p.grad is not None]
        norms = torch.zeros(1, device=accelerator.device)
        if gradients:
            norms = torch.stack([norm.float() for norm in torch._foreach_norm(gradients)])
        asked = getattr(self.trainer, "aux_loss_enabled", False) or any(
            part.generation.speaks for part in self._parts
        )
        unseen = not gradients  # an engine that steps by itself
        found = torch.stack([~norms.isfinite().all(), norms.any() & asked | unseen]).float()
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
        texts = [_prompt(generation, g) for generation, g in culprits]
        self.reports.append({"step": step, "groups": groups, "prompts": texts})
        where = f"group {', '.join(map(str, groups))}" if culprits else "another rank"
        prompts = "; ".join(sorted({text for text in texts if text}))
        warnings.warn(
            f"step {step} was skipped ({self.skipped} so far): its gradient is NaN or infinite, because of "
            f"{where}{f' (prompt: {prompts})' if prompts else ''}. Weights and optimiser are unchanged. "
            "If this goes on, lower learning_rate or max_grad_norm",
            stacklevel=2,
        )

    def _searched(self) -> list[tuple[Generation, int]]:
        """Groups whose own gradient is not finite, tried one by one with the weights of the step."""
        found = []
        for part in self._parts:
            groups = part.rows // part.generation.shape[1]
            for g in torch.unique(groups).tolist():
                if not self._group_is_finite(part, groups == g):
                    found.append((part.generation, g))
        return found

    def _group_is_finite(self, part: Part, own: torch.Tensor) -> bool:
        model = self.trainer.accelerator.unwrap_model(self.trainer.model)
        inputs = {
            k: x[own] if isinstance(x, torch.Tensor) and x.ndim and len(x) == len(own) else x
            for k, x in part.inputs.items()
        }
        weights = [p for p in model.parameters() if p.requires_grad]
        with attention.cudnn(False):
            log_probs = self.trainer._forward(model, inputs)[0]
            loss = (part.c[own] * log_probs).sum()
            gradients = torch.autograd.grad(loss, weights, allow_unused=True)
        return all(bool(g.isfinite().all()) for g in gradients if g is not None)


def _prompt(generation: Generation, g: int) -> str:
    """The start of a group's prompt, where this rank has it."""
    K = generation.shape[1]
    for row in range(g * K, (g + 1) * K):
        at = row - generation.first_row
        if 0 <= at < len(generation.prompts):
            prompt = generation.prompts[at]
            text = prompt if isinstance(prompt, str) else str(prompt[-1].get("content", ""))
            return text[:80]
    return ""

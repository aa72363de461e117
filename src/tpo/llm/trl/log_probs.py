"""Log-probs of completions: by TRL's own forward pass, or packed, where a group's prompt is read once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from tpo.llm.packed.log_probs import Rows, shared
from tpo.llm.trl.compat import can_pack, forward_options


class LogProbs:
    """Log-probs and entropies of a trainer's batches."""

    def __init__(self, trainer: Any) -> None:
        """Find out once whether the model can read packed groups."""
        self.trainer = trainer
        self._can_pack = can_pack(trainer)
        self._options = forward_options()

    def of_batch(self, model: Any, inputs: dict[str, Any], **options: Any) -> tuple[Any, ...]:
        """Of a batch: log-probs, entropies, and whatever else TRL's forward pass returns."""
        ids = torch.cat([inputs["prompt_ids"], inputs["completion_ids"]], 1)
        mask = torch.cat([inputs["prompt_mask"], inputs["completion_mask"]], 1)
        extra = {k: inputs[k] for k in self._options if inputs.get(k) is not None}
        if getattr(self.trainer, "aux_loss_enabled", False) and options.get("compute_entropy"):
            options["compute_aux_loss"] = True
        outputs = self.trainer._get_per_token_logps_and_entropies(
            model, ids, mask, inputs["completion_ids"].shape[1], **extra, **options
        )
        return tuple(outputs)

    def of_tokens(
        self,
        of_trl: Callable[..., tuple[Any, ...]],
        arguments: tuple[Any, torch.Tensor, torch.Tensor, int],
        batch_size: int | None,
        compute_entropy: bool,
        more: dict[str, Any],
    ) -> tuple[Any, ...]:
        """What TRL's method `of_trl` returns for (model, ids, mask, completion length); packed if possible."""
        trainer = self.trainer
        K = trainer.num_generations
        model, ids, mask, length = arguments
        text_only = not any(value is not None and value is not False for value in more.values())
        if not (self._can_pack and text_only and shared(ids[:, :-length], K)):
            return of_trl(
                *arguments, **more, batch_size=batch_size, compute_entropy=compute_entropy
            )
        unwrapped = trainer.accelerator.unwrap_model(model)
        rows = Rows(ids, mask, length)
        with trainer.accelerator.autocast():
            outputs = rows.log_probs(unwrapped, K, trainer.temperature, batch_size, compute_entropy)
        return *outputs, None

"""The policy loss: -Σ A·log pi over a micro-batch; the advantages A contain everything else."""

from __future__ import annotations

from typing import Any

import torch
from verl.trainer.ppo.core_algos import agg_loss, register_policy_loss
from verl.utils.torch_functional import masked_mean


@register_policy_loss("tpo")  # type: ignore[untyped-decorator]
def policy_loss(
    old_log_prob: torch.Tensor,
    log_prob: torch.Tensor,
    advantages: torch.Tensor,
    response_mask: torch.Tensor,
    loss_agg_mode: str = "token-sum",
    config: Any = None,
    rollout_is_weights: torch.Tensor | None = None,
) -> tuple[torch.Tensor, dict[str, float]]:
    """-Σ A·log pi over all tokens [b, T] of a micro-batch, A = -dL/d log pi of the whole batch.

    It is a sum whatever `loss_agg_mode` is: A already includes the objective's mean over contexts, candidates
    and tokens. Gradients are summed over micro-batches. verl's engines average them over data-parallel ranks,
    which `token-sum` undoes.
    """
    ranks = 1 if config is None else config.global_batch_info.get("dp_size", 1)
    loss = agg_loss(-advantages * log_prob, response_mask, "token-sum", dp_size=ranks)
    moved = masked_mean((old_log_prob - log_prob).detach(), response_mask)
    return loss, {"actor/ppo_kl": moved.item()}

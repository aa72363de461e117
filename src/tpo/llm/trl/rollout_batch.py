"""RolloutBatch: one rollout batch with all its groups, and the coefficients of any of its rows.

Rows are numbered as TRL lays them out: rank after rank, the K candidates of a prompt side by side. What a rank
does not know (log-probs of rows that it has not scored) reads 0; `coupled` says when that is of no influence.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import torch

import tpo
from tpo.llm.trl.compat import sampled, token_mask
from tpo.objectives import Objective

Tensor = torch.Tensor


class Fit(NamedTuple):
    """Coefficients of all rows [G, K, T], and what they were made of."""

    coefficients: Tensor
    log_probs: Tensor
    prepared: Any


@dataclass
class RolloutBatch:
    """K scored candidates for each of G prompts, over all ranks."""

    objective: Objective
    groups: tpo.Groups
    """with zeros for log-probs that are not known"""
    beta: float
    """strength of the KL to `groups.log_probs_ref`, for objectives that have none of their own"""
    step: int
    """the optimiser step that the completions were sampled at"""
    first_row: int
    """this rank's first row"""
    prompts: list[Any] = field(default_factory=list)
    """of this rank's rows"""
    images: bool = False
    """whether rows come with images, which cannot be sorted by row"""
    kl_correction: bool = False
    """whether the KL that `beta` weighs is corrected by the ratio (`tpo.objectives.kl.corrected`)"""
    refreshed: int = -1
    """the optimiser step that `fit` belongs to"""
    fit: Fit | None = None
    checked: bool = False
    """whether its first fit was checked for warnings"""

    @cached_property
    def informative(self) -> bool:
        """Whether a group is informative: at the snapshot a coefficient is not 0."""
        return bool(self.fitted(self.groups.log_probs_old).coefficients.any())

    @property
    def shape(self) -> tuple[int, int, int]:
        """G, K, T"""
        G, K, T = self.groups.log_probs_old.shape
        return G, K, T

    def flat(self, x: Tensor) -> Tensor:
        """[G, K, ...] as rows."""
        return x.reshape(-1, *x.shape[2:])

    def padded(self, log_probs: Tensor) -> Tensor:
        """[b, t] with zeros up to T."""
        return torch.nn.functional.pad(log_probs, (0, self.shape[2] - log_probs.shape[1]))

    def placed(self, rows: Tensor, log_probs: Tensor, onto: Tensor) -> Tensor:
        """A copy of `onto` [G, K, T] in which these rows hold these log-probs."""
        filled = self.flat(onto).clone()
        filled[rows] = self.padded(log_probs).to(filled.dtype)
        return filled.reshape(onto.shape)

    def snapshot(self, log_probs_old: Tensor) -> None:
        """Take these [G, K, T] as p_old. A token that is NaN or infinite is left out; its step is skipped."""
        assert self.groups.mask is not None
        mask = self.groups.mask & log_probs_old.isfinite()
        self.groups = replace(self.groups, log_probs_old=log_probs_old, mask=mask)

    def fitted(self, log_probs: Tensor) -> Fit:
        """The coefficients of every row when the policy gives these log-probs [G, K, T]."""
        prepared = self.objective.prepare(self.groups)
        c = self.objective.coefficients(log_probs, prepared)
        if self.beta and self.groups.log_probs_ref is not None:
            c = c + self._penalty(log_probs)
        return Fit(c, log_probs, prepared)

    def _penalty(self, log_probs: Tensor) -> Tensor:
        """The KL to the reference: GRPO's, where no score differs from another."""
        kl, prepared = self._kl
        found: Tensor = kl.coefficients(log_probs, prepared)
        return found

    @property
    def _kl(self) -> tuple[Objective, Any]:
        kl = tpo.objective("grpo", beta=self.beta, kl_correction=self.kl_correction)
        flat = replace(self.groups, scores=torch.zeros_like(self.groups.total))
        return kl, kl.prepare(flat)

    def loss(self) -> Tensor:
        """The objective's own value at the snapshot, with its KL; for evaluation."""
        log_probs = self.groups.log_probs_old
        found: Tensor = self.objective.loss(log_probs, self.objective.prepare(self.groups))
        if self.beta and self.groups.log_probs_ref is not None:
            kl, prepared = self._kl
            found = found + kl.loss(log_probs, prepared)
        return found

    def refresh(self, log_probs: Tensor, step: int) -> None:
        """Fit with the log-probs [G, K, T] of the policy at this optimiser step."""
        self.fit, self.refreshed = self.fitted(log_probs), step

    def live(self, rows: Tensor, log_probs: Tensor, step: int) -> Fit:
        """Fit with what one micro-batch's own forward pass says about these rows.

        Before the first update the policy is the snapshot, and both are taken from this one pass.
        """
        if step == self.step:
            self.snapshot(self.placed(rows, log_probs, self.groups.log_probs_old))
            return self.fitted(self.groups.log_probs_old)
        return self.fitted(self.placed(rows, log_probs, self.groups.log_probs_old))

    def broken(self, rows: Tensor, *found: Tensor) -> list[int]:
        """The groups of these rows in which one of these tensors [b, t] is NaN or infinite."""
        bad = torch.zeros(len(rows), dtype=torch.bool, device=rows.device)
        for x in found:
            bad |= ~x.isfinite().all(-1)
        return sorted(set((rows[bad] // self.shape[1]).tolist()))


def groups_of(trainer: Any, output: dict[str, Any], rewards: Tensor) -> tpo.Groups:
    """The groups of TRL's rollout batch `output`, of all ranks, with zeros for log-probs of p_old.

    rewards: [N, R] of all ranks, NaN where one is missing. A completion without any is not valid.
    """
    ranks, training = trainer._ranks, trainer.model.training
    mask = ranks.gathered(token_mask(output))
    rewards = rewards.float()
    weights = trainer.reward_weights.to(rewards.device)
    scores = torch.where(rewards.isnan(), 0.0, rewards) * weights
    valid = ~rewards.isnan().all(-1) & ranks.kept(output)
    K = trainer.num_generations if training else trainer.num_generations_eval
    G = len(rewards) // K
    scores = scores.reshape(G, K, -1)
    given = {
        "log_probs_ref": output.get("ref_per_token_logps"),
        "log_probs_rollout": sampled(output),
    }
    more = {k: ranks.gathered(x.float()) for k, x in given.items() if x is not None}
    return tpo.Groups(
        log_probs_old=torch.zeros(mask.shape, device=mask.device).reshape(G, K, -1),
        scores=scores[..., 0] if scores.shape[-1] == 1 else scores,
        mask=mask.reshape(G, K, -1),
        valid=valid.reshape(G, K),
        scored=valid.reshape(G, K) if trainer.args.mask_truncated_completions else None,
        **{k: x.reshape(G, K, -1) for k, x in more.items()},
    )

"""RolloutBatch: one rollout batch with all its groups, and the coefficients of any of its rows.

Rows are numbered as TRL lays them out: rank after rank, the K candidates of a prompt side by side. Log-probs
of rows that a rank has not scored are 0; `needs_whole_groups` says when that has no influence.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import torch

import tpo
from tpo.llm.trl.compat import rollout_log_probs, token_mask
from tpo.objectives import Objective
from tpo.objectives.corrections import uncorrected, uncorrected_prepared

Tensor = torch.Tensor


class Fit(NamedTuple):
    """Coefficients of all rows [G, K, T], the log-probs that they come from, and prepared groups.

    What a correction (`tis`, `icepop`) prepared is not in `prepared`.
    """

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
    """strength of the KL to `groups.log_probs_ref`, for objectives without a KL of their own"""
    step: int
    """the optimiser step at which the completions were sampled"""
    first_row: int
    """this rank's first row"""
    prompts: list[Any] = field(default_factory=list)
    """of this rank's rows"""
    images: bool = False
    """whether rows come with images, which cannot be sorted by row"""
    kl_correction: bool = False
    """whether the KL that `beta` weighs is corrected by the ratio (`tpo.objectives.kl.corrected`)"""
    fit_step: int = -1
    """the optimiser step of `fit`"""
    fit: Fit | None = None
    checked: bool = False
    """whether its first fit was checked for warnings"""

    @cached_property
    def informative(self) -> bool:
        """Whether a group is informative: at the snapshot a coefficient is not 0."""
        return bool(self.compute_fit(self.groups.log_probs_old).coefficients.any())

    @property
    def uncorrected(self) -> Objective:
        """The objective without `tis` or `icepop`."""
        return uncorrected(self.objective)

    @property
    def shape(self) -> tuple[int, int, int]:
        """G, K, T"""
        G, K, T = self.groups.log_probs_old.shape
        return G, K, T

    def flat(self, x: Tensor) -> Tensor:
        """[G, K, ...] as rows."""
        return x.reshape(-1, *x.shape[2:])

    def set_snapshot(self, log_probs_old: Tensor) -> None:
        """Take these [G, K, T] as p_old. A token that is NaN or infinite is left out; its step is skipped."""
        assert self.groups.mask is not None
        mask = self.groups.mask & log_probs_old.isfinite()
        self.groups = replace(self.groups, log_probs_old=log_probs_old, mask=mask)

    def compute_fit(self, log_probs: Tensor) -> Fit:
        """The coefficients of every row, if these are the policy's log-probs [G, K, T]."""
        prepared = self.objective.prepare(self.groups)
        c = self.objective.coefficients(log_probs, prepared)
        if self.beta and self.groups.log_probs_ref is not None:
            kl, of_kl = self._kl
            c = c + kl.coefficients(log_probs, of_kl)
        return Fit(c, log_probs, uncorrected_prepared(prepared))

    @property
    def _kl(self) -> tuple[Objective, Any]:
        """GRPO with equal scores, of which only the KL is left, and its prepared groups."""
        kl = tpo.objective("grpo", beta=self.beta, kl_correction=self.kl_correction)
        flat = replace(self.groups, scores=torch.zeros_like(self.groups.total))
        return kl, kl.prepare(flat)

    def loss(self) -> Tensor:
        """The objective's own value at the snapshot, with its KL; for evaluation."""
        log_probs = self.groups.log_probs_old
        loss: Tensor = self.objective.loss(log_probs, self.objective.prepare(self.groups))
        if self.beta and self.groups.log_probs_ref is not None:
            kl, prepared = self._kl
            loss = loss + kl.loss(log_probs, prepared)
        return loss

    def refresh(self, log_probs: Tensor, step: int) -> None:
        """Fit with the log-probs [G, K, T] of the policy at this optimiser step."""
        self.fit, self.fit_step = self.compute_fit(log_probs), step

    def fit_micro_batch(self, rows: Tensor, log_probs: Tensor, step: int) -> Fit:
        """Fit with the log-probs [b, t] of these rows from one micro-batch's own forward pass.

        Other rows have the snapshot's. Before the first update the policy is the snapshot, and both are taken
        from this forward pass.
        """
        old = self.groups.log_probs_old
        filled = self.flat(old).clone()
        padding = (0, self.shape[2] - log_probs.shape[1])
        filled[rows] = torch.nn.functional.pad(log_probs, padding).to(filled.dtype)
        current = filled.reshape(old.shape)
        if step == self.step:
            self.set_snapshot(current)
            current = self.groups.log_probs_old
        return self.compute_fit(current)

    def nonfinite_groups(self, rows: Tensor, *tensors: Tensor) -> list[int]:
        """The groups of these rows in which one of these tensors [b, t] is NaN or infinite."""
        nonfinite = torch.zeros(len(rows), dtype=torch.bool, device=rows.device)
        for x in tensors:
            nonfinite |= ~x.isfinite().all(-1)
        return sorted(set((rows[nonfinite] // self.shape[1]).tolist()))


def groups_of(trainer: Any, output: dict[str, Any], rewards: Tensor) -> tpo.Groups:
    """The groups of TRL's rollout batch `output`, of all ranks, with zeros for log-probs of p_old.

    rewards: [N, R] of all ranks, NaN where one is missing. A completion without any reward is not valid, nor is
    a group whose greedy completion has none.
    """
    collectives, training = trainer.collectives, trainer.model.training
    mask = collectives.gather_rows(token_mask(output))
    rewards = rewards.float()
    weights = trainer.reward_weights.to(rewards.device)
    scores = torch.where(rewards.isnan(), 0.0, rewards) * weights
    valid = ~rewards.isnan().all(-1) & collectives.gather_kept(output)
    K = trainer.num_generations if training else trainer.num_generations_eval
    G = len(rewards) // K
    scores = scores.reshape(G, K, -1)
    valid = trainer.group_fields.comparable(valid.reshape(G, K))
    optional = {
        "log_probs_ref": output.get("ref_per_token_logps"),
        "log_probs_rollout": rollout_log_probs(output),
    }
    given = {k: collectives.gather_rows(x.float()) for k, x in optional.items() if x is not None}
    return tpo.Groups(
        log_probs_old=torch.zeros(mask.shape, device=mask.device).reshape(G, K, -1),
        scores=scores[..., 0] if scores.shape[-1] == 1 else scores,
        mask=mask.reshape(G, K, -1),
        valid=valid,
        scored=valid if trainer.args.mask_truncated_completions else None,
        **trainer.group_fields.of_groups(weights, G),
        **{k: x.reshape(G, K, -1) for k, x in given.items()},
    )

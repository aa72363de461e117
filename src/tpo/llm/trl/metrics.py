"""Metrics logged beside the loss: the fit to the target, and KL and clipping under TRL's names."""

from __future__ import annotations

from typing import Any

import torch

from tpo import diagnostics
from tpo.groups import Groups, masked
from tpo.llm.group_metrics import GroupWarnings, score_metrics, valid_candidates
from tpo.llm.rewards.guarded import StartCheck, failed_shares, unique_names
from tpo.llm.trl.config import TargetPolicyConfig
from tpo.llm.trl.distributed import Collectives
from tpo.llm.trl.rollout_batch import Fit, RolloutBatch
from tpo.objectives.kl import clamped, corrected, k3
from tpo.objectives.parts import Composed
from tpo.objectives.ratio import TOKEN
from tpo.objectives.soft_clip import CISPO
from tpo.objectives.surrogates import clipped
from tpo.objectives.target_matching import (
    PreparedTarget,
    log_scores_of,
    misfit,
    probabilities,
    token_terms,
)


class MetricLog:
    """Logs the metrics of a trainer's rollout batches and steps, and warns where they call for it."""

    def __init__(self, trainer: Any, args: TargetPolicyConfig) -> None:
        """May be made before TRL's own constructor, which makes the trainer's `_metrics`."""
        self.trainer, self.success = trainer, args.success
        self._warnings = GroupWarnings(args.patience, trainer.objective)
        self._start_check = StartCheck()

    def add(self, **values: float) -> None:
        """Add values to the means that TRL logs."""
        trainer = self.trainer
        mode = "train" if trainer.model.training else "eval"
        for name, value in values.items():
            trainer._metrics[mode][name].append(value)

    def of_rewards(self, rewards: torch.Tensor, rows: int, seconds: float) -> None:
        """The share of all ranks' completions without a score, and of failures of each reward function.

        rewards: [N, R] of all ranks; rows: number of this rank's. If no completion of the first rollout batches
        has a score, the run ends here.
        """
        trainer = self.trainer
        unscored = rewards.isnan().all(-1).float().mean().item()
        missing = rewards.isnan().float().mean(0).tolist()
        names = unique_names(trainer.reward_func_names)
        of_rank = failed_shares(trainer.reward_funcs, names, rows, missing)
        shares = torch.tensor(list(of_rank.values()), device=rewards.device)
        failed = dict(zip(of_rank, trainer.collectives.rank_mean(shares), strict=True))
        self.add(reward_time=seconds, reward_failures=unscored)
        self.add(**{f"reward_failures/{name}": share for name, share in failed.items()})
        if trainer.model.training:
            functions = dict(zip(names, trainer.reward_funcs, strict=True))
            self._start_check.check(unscored, functions, failed)

    def of_scores(self, groups: Groups) -> None:
        """The shares of groups of a new rollout batch."""
        metrics = score_metrics(groups, self.success)
        self.add(**metrics)
        truncated = self.trainer._metrics["train"]["completions/clipped_ratio"] or [0.0]
        self._warnings.check_scores(metrics, truncated[-1])

    def of_fit(
        self, rollouts: RolloutBatch, fit: Fit | None, rows: torch.Tensor | None = None
    ) -> None:
        """How far the policy is from its target; `rows` as in `fit_metrics`."""
        of_rank = fit_metrics(rollouts, fit, rows, self.success)
        if not of_rank:
            return
        means = self.trainer.collectives.rank_mean(torch.stack(list(of_rank.values())))
        metrics = dict(zip(of_rank, means, strict=True))
        self.add(**metrics)
        if not rollouts.checked:
            rollouts.checked = True
            self._warnings.check_fit(metrics)


def fit_metrics(
    rollouts: RolloutBatch, fit: Fit | None, rows: torch.Tensor | None, success: float
) -> dict[str, torch.Tensor]:
    """KL(q‖p), effective candidates and target mass on winners; nothing where the objective has no target.

    If several candidates are one outcome, q divides the outcome's mass as the policy does, so that the KL is
    between outcomes. rows: those whose log-probs are known, in whole groups; None for all. The mass is NaN if
    no group has both winners and losers; effective candidates are NaN if no group has two candidates.
    """
    if fit is None or not isinstance(fit.prepared, PreparedTarget):
        return {}
    K = rollouts.shape[1]
    groups = slice(None) if rows is None else torch.unique(rows // K)
    log_scores = log_scores_of(rollouts.groups.xp, fit.log_probs, fit.prepared.rule)
    p = probabilities(rollouts.groups.xp, log_scores, fit.prepared.candidates)
    q = (p - misfit(rollouts.groups.xp, log_scores, fit.prepared))[groups]
    log_scores, valid = log_scores[groups], valid_candidates(rollouts.groups)[groups]
    not_empty = valid.any(-1)
    n = not_empty.sum().clamp(min=1)
    mass = diagnostics.target_mass(q, rollouts.groups.total[groups], valid, success)
    kl = torch.where(not_empty, diagnostics.kl(q, log_scores, valid), 0.0)
    compared = valid.sum(-1) > 1
    effective = diagnostics.effective_candidates(log_scores, valid)
    mixed = mass.winners + mass.losers > 0
    return {
        "target/kl": kl.sum() / n,
        "target/effective_candidates": (effective * compared).sum() / compared.sum(),
        "target/mass_on_winners": torch.where(mixed, mass.winners, torch.nan),
    }


def step_metrics(
    rollouts: RolloutBatch,
    fit: Fit,
    rows: torch.Tensor,
    mask: torch.Tensor,
    collectives: Collectives,
) -> dict[str, float]:
    """`kl` and `clip_ratio/*` of these rows under TRL's names, as far as the objective has them; mask: [b, t].

    `kl` is the mean of k3 over tokens, corrected by the ratio if the objective's KL is. A clipped token has no
    gradient.
    """
    metrics: dict[str, float] = {}

    def of_rows(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        x = rollouts.flat(x)[rows, : mask.shape[1]].float()
        return (x, mask) if x.shape == mask.shape else (x, torch.ones_like(x, dtype=torch.bool))

    if (kl := _kl(rollouts, fit)) is not None:
        metrics["kl"] = collectives.token_mean(*of_rows(kl))
    objective, prepared = rollouts.uncorrected, fit.prepared
    if isinstance(objective, CISPO):
        above = _log_ratios(rollouts, fit).exp() > objective.cap
        capped = above & (prepared.advantages > 0)
        metrics["cispo_clip_ratio"] = collectives.token_mean(*of_rows(capped))
    if (clipped := _clipped(rollouts, fit)) is not None:
        low, high = map(of_rows, clipped)
        metrics["clip_ratio/low_mean"] = collectives.token_mean(*low)
        metrics["clip_ratio/low_min"] = collectives.row_mean_range(*low)[0]
        metrics["clip_ratio/high_mean"] = collectives.token_mean(*high)
        metrics["clip_ratio/high_max"] = collectives.row_mean_range(*high)[1]
        metrics["clip_ratio/region_mean"] = (
            metrics["clip_ratio/low_mean"] + metrics["clip_ratio/high_mean"]
        )
    return metrics


def _clipped(rollouts: RolloutBatch, fit: Fit) -> tuple[torch.Tensor, torch.Tensor] | None:
    """Which ratios are clipped at the lower bound and at the upper one; None if the objective clips none."""
    objective, prepared = rollouts.uncorrected, fit.prepared
    if isinstance(objective, Composed) and (bounds := objective.parts().surrogate.bounds):
        below, above = clipped(_log_ratios(rollouts, fit).exp(), prepared.advantages, *bounds)
        return below, above
    if isinstance(prepared, PreparedTarget) and prepared.rule.clip is not None:
        low, high = prepared.rule.clip
        x = token_terms(rollouts.groups.xp, fit.log_probs, prepared.rule)
        return x <= low, x >= high
    return None


def _kl(rollouts: RolloutBatch, fit: Fit) -> torch.Tensor | None:
    """[G, K, T] the KL of each token; None without a reference."""
    objective, group = rollouts.uncorrected, rollouts.groups
    if group.log_probs_ref is None or not (rollouts.beta or getattr(objective, "beta", 0.0)):
        return None
    kl: torch.Tensor = k3(masked(group.xp, fit.log_probs, group.mask), group.log_probs_ref)
    if not getattr(objective, "kl_correction", rollouts.kl_correction):
        return kl
    corrected_kl: torch.Tensor = corrected(group.xp, _log_ratios(rollouts, fit), kl)
    return corrected_kl


def _log_ratios(rollouts: RolloutBatch, fit: Fit) -> torch.Tensor:
    """[G, K, T] or [G, K, 1] log(pi/pi_old) as the objective takes it, clamped; else per token."""
    objective, group = rollouts.uncorrected, rollouts.groups
    unit = objective.parts().unit if isinstance(objective, Composed) else TOKEN
    log_probs = masked(group.xp, fit.log_probs, group.mask)
    x = unit.log(group.xp, log_probs, group.log_probs_old, fit.prepared)
    log_ratios: torch.Tensor = clamped(group.xp, x)
    return log_ratios

"""What is logged beside the loss: the fit to the target, and KL and clipping under TRL's names."""

from __future__ import annotations

from typing import Any

import torch

from tpo import diagnostics
from tpo.groups import Groups, masked
from tpo.llm.group_metrics import GroupWarnings, score_metrics, valid_candidates
from tpo.llm.rewards.guarded import StartCheck, failed_shares
from tpo.llm.trl.config import TargetPolicyConfig
from tpo.llm.trl.distributed import Ranks
from tpo.llm.trl.rollout_batch import Fit, RolloutBatch
from tpo.objectives.kl import clamped, corrected, k3
from tpo.objectives.ratio import ClippedObjective, RatioObjective
from tpo.objectives.soft_clip import CISPO
from tpo.objectives.target_matching import PreparedTarget, log_scores_of, misfit, probabilities


class MetricLog:
    """What a trainer logs of its rollout batches and steps, and the warnings that follow from it."""

    def __init__(self, trainer: Any, args: TargetPolicyConfig) -> None:
        """Before TRL's own constructor, which makes the trainer's `_metrics`."""
        self.trainer, self.success = trainer, args.success
        self._warnings = GroupWarnings(args.patience, trainer.objective)
        self._start_check = StartCheck()

    def note(self, **values: float) -> None:
        """Add values to the means that TRL logs."""
        trainer = self.trainer
        mode = "train" if trainer.model.training else "eval"
        for name, value in values.items():
            trainer._metrics[mode][name].append(value)

    def of_rewards(self, rewards: torch.Tensor, rows: int, seconds: float) -> None:
        """The share of all ranks' completions without a score [N, R], and of failures of each function.

        rows: of this rank. A run whose first rollout batches have no score at all ends here.
        """
        trainer = self.trainer
        unscored = rewards.isnan().all(-1).float().mean().item()
        missing = rewards.isnan().float().mean(0).tolist()
        own = failed_shares(trainer.reward_funcs, trainer.reward_func_names, rows, missing)
        shares = trainer._ranks.mean(torch.tensor(list(own.values()), device=rewards.device))
        failed = dict(zip(own, shares, strict=True))
        self.note(reward_time=seconds, reward_failures=unscored)
        self.note(**{f"reward_failures/{name}": share for name, share in failed.items()})
        if trainer.model.training:
            self._start_check.check(unscored, trainer.reward_funcs, failed)

    def of_scores(self, groups: Groups) -> None:
        """The shares of groups of a new rollout batch."""
        found = score_metrics(groups, self.success)
        self.note(**found)
        truncated = self.trainer._metrics["train"]["completions/clipped_ratio"] or [0.0]
        self._warnings.check_scores(found, truncated[-1])

    def of_fit(
        self, rollouts: RolloutBatch, fit: Fit | None, rows: torch.Tensor | None = None
    ) -> None:
        """How far the policy is from its target; `rows` as in `fit_metrics`."""
        own = fit_metrics(rollouts, fit, rows, self.success)
        if not own:
            return
        means = self.trainer._ranks.mean(torch.stack(list(own.values())))
        found = dict(zip(own, means, strict=True))
        self.note(**found)
        if not rollouts.checked:
            rollouts.checked = True
            self._warnings.check_fit(found)


def fit_metrics(
    rollouts: RolloutBatch, fit: Fit | None, rows: torch.Tensor | None, success: float
) -> dict[str, torch.Tensor]:
    """KL(q‖p), effective candidates and target mass on winners; nothing where the objective has no target.

    Where candidates make one outcome, q divides its mass as the policy does, so that the KL is of outcomes.
    `rows` are those whose log-probs are known, whole groups; None for all. The mass is NaN where no group has
    both outcomes, and effective candidates where none has two candidates to compare.
    """
    if fit is None or not isinstance(fit.prepared, PreparedTarget):
        return {}
    K = rollouts.shape[1]
    own = slice(None) if rows is None else torch.unique(rows // K)
    log_scores = log_scores_of(rollouts.groups.xp, fit.log_probs, fit.prepared.rule)
    p = probabilities(rollouts.groups.xp, log_scores, fit.prepared.candidates)
    q = (p - misfit(rollouts.groups.xp, log_scores, fit.prepared))[own]
    log_scores, valid = log_scores[own], valid_candidates(rollouts.groups)[own]
    present = valid.any(-1)
    n = present.sum().clamp(min=1)
    mass = diagnostics.target_mass(q, rollouts.groups.total[own], valid, success)
    kl = torch.where(present, diagnostics.kl(q, log_scores, valid), 0.0)
    compared = valid.sum(-1) > 1
    effective = diagnostics.effective_candidates(log_scores, valid)
    mixed = mass.winners + mass.losers > 0
    return {
        "target/kl": kl.sum() / n,
        "target/effective_candidates": (effective * compared).sum() / compared.sum(),
        "target/mass_on_winners": torch.where(mixed, mass.winners, torch.nan),
    }


def step_metrics(
    rollouts: RolloutBatch, fit: Fit, rows: torch.Tensor, mask: torch.Tensor, ranks: Ranks
) -> dict[str, float]:
    """`kl` and `clip_ratio/*` of these rows under TRL's names; mask: [b, t]. Each only where there is one.

    `kl` is k3, with its correction where it has one: the mean over tokens. A clipped token has no gradient.
    """
    found: dict[str, float] = {}

    def own(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        x = rollouts.flat(x)[rows, : mask.shape[1]].float()
        return (x, mask) if x.shape == mask.shape else (x, torch.ones_like(x, dtype=torch.bool))

    if (kl := _kl(rollouts, fit)) is not None:
        found["kl"] = ranks.mean_over(*own(kl))
    objective, prepared = rollouts.objective, fit.prepared
    if isinstance(objective, CISPO):
        above = objective.ratios(rollouts.groups.xp, fit.log_probs, prepared) > objective.cap
        found["cispo_clip_ratio"] = ranks.mean_over(*own(above & (prepared.advantages > 0)))
    if isinstance(objective, ClippedObjective):
        low, high = map(
            own, objective.clipped(_log_ratios(rollouts, fit).exp(), prepared.advantages)
        )
        found["clip_ratio/low_mean"] = ranks.mean_over(*low)
        found["clip_ratio/low_min"] = ranks.extremes(*low)[0]
        found["clip_ratio/high_mean"] = ranks.mean_over(*high)
        found["clip_ratio/high_max"] = ranks.extremes(*high)[1]
        found["clip_ratio/region_mean"] = (
            found["clip_ratio/low_mean"] + found["clip_ratio/high_mean"]
        )
    return found


def _kl(rollouts: RolloutBatch, fit: Fit) -> torch.Tensor | None:
    """[G, K, T] the KL of each token; None without a reference."""
    objective, group = rollouts.objective, rollouts.groups
    if group.log_probs_ref is None or not (rollouts.beta or getattr(objective, "beta", 0.0)):
        return None
    kl: torch.Tensor = k3(masked(group.xp, fit.log_probs, group.mask), group.log_probs_ref)
    if not getattr(objective, "kl_correction", rollouts.kl_correction):
        return kl
    found: torch.Tensor = corrected(group.xp, _log_ratios(rollouts, fit), kl)
    return found


def _log_ratios(rollouts: RolloutBatch, fit: Fit) -> torch.Tensor:
    """[G, K, T] or [G, K, 1] log(pi/pi_old) as the objective takes it, clamped; else per token."""
    objective, group = rollouts.objective, rollouts.groups
    if isinstance(objective, RatioObjective):
        x = objective.log_ratios(group.xp, fit.log_probs, group.log_probs_old, fit.prepared)
    else:
        x = masked(group.xp, fit.log_probs, group.mask) - group.log_probs_old
    found: torch.Tensor = clamped(group.xp, x)
    return found

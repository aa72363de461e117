"""What is logged beside the loss: the fit to the target, and KL and clipping under TRL's names."""

from __future__ import annotations

import torch

from tpo import diagnostics
from tpo.groups import masked
from tpo.llm.group_metrics import valid_candidates
from tpo.llm.trl.distributed import Ranks
from tpo.llm.trl.rollout_batch import Fit, Generation
from tpo.objectives.kl import clamped, corrected, k3
from tpo.objectives.ratio import ClippedObjective, RatioObjective
from tpo.objectives.soft_clip import CISPO
from tpo.objectives.target_matching import PreparedTarget, log_scores_of, misfit, probabilities


def fit_metrics(
    generation: Generation, fit: Fit | None, rows: torch.Tensor | None, success: float
) -> dict[str, torch.Tensor]:
    """KL(q‖p), effective candidates and target mass on winners; nothing where the objective has no target.

    Where candidates make one outcome, q divides its mass as the policy does, so that the KL is of outcomes.
    `rows` are those whose log-probs are known, whole groups; None for all. The mass is NaN where no group has
    both outcomes, and effective candidates where none has two candidates to compare.
    """
    if fit is None or not isinstance(fit.prepared, PreparedTarget):
        return {}
    K = generation.shape[1]
    own = slice(None) if rows is None else torch.unique(rows // K)
    log_scores = log_scores_of(generation.group.xp, fit.log_probs, fit.prepared.rule)
    p = probabilities(generation.group.xp, log_scores, fit.prepared.candidates)
    q = (p - misfit(generation.group.xp, log_scores, fit.prepared))[own]
    log_scores, valid = log_scores[own], valid_candidates(generation.group)[own]
    present = valid.any(-1)
    n = present.sum().clamp(min=1)
    mass = diagnostics.target_mass(q, generation.group.total[own], valid, success)
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
    generation: Generation, fit: Fit, rows: torch.Tensor, mask: torch.Tensor, ranks: Ranks
) -> dict[str, float]:
    """`kl` and `clip_ratio/*` of these rows under TRL's names; mask: [b, t]. Each only where there is one.

    `kl` is k3, with its correction where it has one: the mean over tokens. A clipped token has no gradient.
    """
    found: dict[str, float] = {}

    def own(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        x = generation.flat(x)[rows, : mask.shape[1]].float()
        return (x, mask) if x.shape == mask.shape else (x, torch.ones_like(x, dtype=torch.bool))

    if (kl := _kl(generation, fit)) is not None:
        found["kl"] = ranks.mean_over(*own(kl))
    objective, prepared = generation.objective, fit.prepared
    if isinstance(objective, CISPO):
        above = objective.ratios(generation.group.xp, fit.log_probs, prepared) > objective.cap
        found["cispo_clip_ratio"] = ranks.mean_over(*own(above & (prepared.advantages > 0)))
    if isinstance(objective, ClippedObjective):
        low, high = map(
            own, objective.clipped(_log_ratios(generation, fit).exp(), prepared.advantages)
        )
        found["clip_ratio/low_mean"] = ranks.mean_over(*low)
        found["clip_ratio/low_min"] = ranks.extremes(*low)[0]
        found["clip_ratio/high_mean"] = ranks.mean_over(*high)
        found["clip_ratio/high_max"] = ranks.extremes(*high)[1]
        found["clip_ratio/region_mean"] = (
            found["clip_ratio/low_mean"] + found["clip_ratio/high_mean"]
        )
    return found


def _kl(generation: Generation, fit: Fit) -> torch.Tensor | None:
    """[G, K, T] the KL of each token; None without a reference."""
    objective, group = generation.objective, generation.group
    if group.log_probs_ref is None or not (generation.beta or getattr(objective, "beta", 0.0)):
        return None
    kl: torch.Tensor = k3(masked(group.xp, fit.log_probs, group.mask), group.log_probs_ref)
    if not getattr(objective, "kl_correction", generation.kl_correction):
        return kl
    found: torch.Tensor = corrected(group.xp, _log_ratios(generation, fit), kl)
    return found


def _log_ratios(generation: Generation, fit: Fit) -> torch.Tensor:
    """[G, K, T] or [G, K, 1] log(pi/pi_old) as the objective takes it, clamped; else per token."""
    objective, group = generation.objective, generation.group
    if isinstance(objective, RatioObjective):
        x = objective.log_ratios(group.xp, fit.log_probs, group.log_probs_old, fit.prepared)
    else:
        x = masked(group.xp, fit.log_probs, group.mask) - group.log_probs_old
    found: torch.Tensor = clamped(group.xp, x)
    return found

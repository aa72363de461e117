"""What is logged beside the loss, and the warnings that come of it; all numbers from `tpo.diagnostics`."""

from __future__ import annotations

import warnings
from collections import deque
from statistics import fmean
from typing import Any

import torch

import tpo
from tpo import diagnostics
from tpo.groups import masked
from tpo.llm.generation import Fit, Generation
from tpo.llm.ranks import Ranks
from tpo.objectives import Objective
from tpo.objectives.kl import clamped, corrected, k3
from tpo.objectives.ratio import ClippedObjective, RatioObjective
from tpo.objectives.soft_clip import CISPO
from tpo.objectives.target import TargetSignal, log_scores_of, misfit, probabilities

FEW = 2.0
"""Fewer effective candidates than this: one candidate stands for its group."""
MOST = 0.8
"""A share of groups without a signal from which a warning is due."""
ONCE = 0.3
"""A policy that solved more than this share of prompts, and now less than a quarter of that, has fallen."""


def score_metrics(group: tpo.Group, success: float) -> dict[str, float]:
    """`group_metrics` of a group's scores; a candidate that counts only in the scores is excluded as well."""
    valid = _valid(group)
    counted = valid if group.scored is None else group.scored & valid.any(-1, keepdim=True)
    found = group_metrics(group.total, counted, success)
    return {**found, "groups/excluded": 1 - valid.double().mean().item()}


def group_metrics(scores: torch.Tensor, valid: torch.Tensor, success: float) -> dict[str, float]:
    """Shares of groups without a signal, and the share of prompts solved by at least one candidate; of [G, K].

    A group of which every candidate is excluded has no signal, and its prompt is not solved.
    """
    shares = diagnostics.group_shares(scores, valid, success)
    some, counted = torch.stack([valid.any(-1).double().mean(), valid.double().mean()]).tolist()
    flat, fail, solved = torch.stack(list(shares)).tolist()
    return {
        "groups/zero_variance": 1 - some * (1 - flat),
        "groups/all_fail": some * fail,
        "groups/all_pass": some * solved,
        "groups/excluded": 1 - counted,
        f"pass@{scores.shape[-1]}": some * (1 - fail),
    }


def fit_metrics(
    generation: Generation, fit: Fit | None, rows: torch.Tensor | None, success: float
) -> dict[str, torch.Tensor]:
    """KL(q‖p), effective candidates and target mass on winners; nothing where the objective has no target.

    Where candidates make one outcome, q divides its mass as the policy does, so that the KL is of outcomes.
    `rows` are those whose log-probs are known, whole groups; None for all. The mass is NaN where no group has
    both outcomes, and effective candidates where none has two candidates to compare.
    """
    if fit is None or not isinstance(fit.signal, TargetSignal):
        return {}
    K = generation.shape[1]
    own = slice(None) if rows is None else torch.unique(rows // K)
    log_scores = log_scores_of(generation.group.xp, fit.log_probs, fit.signal.rule)
    p = probabilities(generation.group.xp, log_scores, fit.signal.candidates)
    q = (p - misfit(generation.group.xp, log_scores, fit.signal))[own]
    log_scores, valid = log_scores[own], _valid(generation.group)[own]
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
    objective, signal = generation.objective, fit.signal
    if isinstance(objective, CISPO):
        above = objective.ratios(generation.group.xp, fit.log_probs, signal) > objective.cap
        found["cispo_clip_ratio"] = ranks.mean_over(*own(above & (signal.advantages > 0)))
    if isinstance(objective, ClippedObjective):
        low, high = map(
            own, objective.clipped(_log_ratios(generation, fit).exp(), signal.advantages)
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
        x = objective.log_ratios(group.xp, fit.log_probs, group.log_probs_old, fit.signal)
    else:
        x = masked(group.xp, fit.log_probs, group.mask) - group.log_probs_old
    found: torch.Tensor = clamped(group.xp, x)
    return found


def _valid(group: tpo.Group) -> torch.Tensor:
    """[G, K]; a rollout batch always says which candidates count."""
    assert group.valid is not None
    found: torch.Tensor = group.valid
    return found


class Watch:
    """Warns once, with advice, when for `patience` rollout batches in a row there was hardly a signal.

    What a run solved before it was resumed is not known.
    """

    def __init__(self, patience: int, objective: Objective) -> None:
        """Count from 0."""
        self.patience = patience
        self.score = getattr(objective, "score", None)
        self._counts = {"few": 0, "flat": 0}
        self._solved: deque[float] = deque(maxlen=patience)
        """shares of prompts that a completion solved, of the last rollout batches"""
        self._best = 0.0
        """the largest mean of so many in a row"""

    def scores(self, found: dict[str, float], truncated: float = 0.0) -> None:
        """Look at one rollout batch's scores; `truncated` is the share of completions cut at the limit."""
        self._solved += [x for name, x in found.items() if name.startswith("pass@")]
        if len(self._solved) == self.patience:
            self._best = max(self._best, fmean(self._solved))
        cause, advice = self._flat(found, truncated)
        self._count(
            "flat",
            found["groups/zero_variance"] > MOST,
            f"in the last {self.patience} rollout batches most groups carried no signal "
            f"({found['groups/zero_variance']:.0%} of groups now; {cause}): {advice}",
        )

    def fit(self, found: dict[str, Any]) -> None:
        """Look at one rollout batch's target."""
        if "target/effective_candidates" in found:
            n = found["target/effective_candidates"]
            self._count(
                "few",
                n < FEW,
                f"in the last {self.patience} rollout batches one candidate held nearly all of its group "
                f"({n:.2f} effective candidates now), so the others learn nothing: score={self.score!r} "
                "does that on long completions. Set score='ratio'",
            )

    def _count(self, name: str, low: bool, message: str) -> None:
        self._counts[name] = self._counts[name] + 1 if low else 0
        if self._counts[name] == self.patience:
            warnings.warn(message, stacklevel=4)

    def _flat(self, found: dict[str, float], truncated: float) -> tuple[str, str]:
        """Why groups have no signal, and what to do."""
        fail, passed = found["groups/all_fail"], found["groups/all_pass"]
        if found["groups/excluded"] > 0.5:
            return (
                f"{found['groups/excluded']:.0%} of completions are truncated or unscored",
                "raise max_completion_length, keep truncated completions with "
                "drop_truncated_completions=False and mask_truncated_completions=False, "
                "or fix the scorer if reward_failures is high",
            )
        if min(fail, passed) > 0.1:
            return f"{fail:.0%} always fail and {passed:.0%} always pass", "take prompts in between"
        if passed > fail:
            return "nearly all pass", "take harder prompts"
        advice = "take easier prompts, more candidates (num_generations) or a partial score"
        if self._best > ONCE and fmean(self._solved) < self._best / 4:
            limit = f", and {truncated:.0%} reach the limit of tokens" if truncated > 0.5 else ""
            return f"nearly all fail, where once {self._best:.0%} of prompts were solved{limit}", (
                "the policy has fallen. Go back to a checkpoint from before, with a lower learning rate or "
                f"fewer passes over a batch; or, if prompts have become harder, {advice}"
            )
        if truncated > 0.5:
            cause = f"nearly all fail, and {truncated:.0%} reach the limit of tokens"
            return cause, f"raise max_completion_length, or {advice}"
        return "nearly all fail", advice

"""What is logged beside the loss, and the warnings that come of it; all numbers from `tpo.diagnostics`."""

from __future__ import annotations

import warnings
from typing import Any

import torch

import tpo
from tpo import diagnostics
from tpo.llm.generation import Fit, Generation
from tpo.objectives import Objective
from tpo.objectives.target import TargetSignal, log_scores_of

FEW = 2.0
"""Fewer effective candidates than this: one candidate stands for its group."""
MOST = 0.8
"""A share of groups without a signal from which a warning is due."""


def score_metrics(group: tpo.Group, success: float) -> dict[str, float]:
    """Shares of groups without a signal, and the share of prompts solved by at least one candidate.

    A group of which every candidate is excluded has no signal, and its prompt is not solved.
    """
    shares = diagnostics.group_shares(group.total, group.valid, success)
    valid = _valid(group)
    some, counted = torch.stack([valid.any(-1).double().mean(), valid.double().mean()]).tolist()
    flat, fail, solved = (some * share for share in torch.stack(list(shares)).tolist())
    return {
        "groups/zero_variance": flat + 1 - some,
        "groups/all_fail": fail,
        "groups/all_pass": solved,
        "groups/excluded": 1 - counted,
        f"pass@{group.total.shape[-1]}": some - fail,
    }


def fit_metrics(
    generation: Generation, fit: Fit | None, rows: torch.Tensor | None, success: float
) -> dict[str, torch.Tensor]:
    """KL(q‖p), effective candidates and target mass on winners; nothing where the objective has no target.

    `rows` are those whose log-probs are known, whole groups; None for all. The mass is NaN where no group has
    both outcomes, and effective candidates where none has two candidates to compare.
    """
    if fit is None or not isinstance(fit.signal, TargetSignal):
        return {}
    K = generation.shape[1]
    own = slice(None) if rows is None else torch.unique(rows // K)
    log_scores = log_scores_of(generation.group.xp, fit.log_probs, fit.signal.rule)[own]
    q, valid = fit.signal.q[own], _valid(generation.group)[own]
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


def _valid(group: tpo.Group) -> torch.Tensor:
    """[G, K]; a rollout batch always says which candidates count."""
    assert group.valid is not None
    found: torch.Tensor = group.valid
    return found


class Watch:
    """Warns once, with advice, when for `patience` rollout batches in a row there was hardly a signal."""

    def __init__(self, patience: int, objective: Objective) -> None:
        """Count from 0."""
        self.patience = patience
        self.score = getattr(objective, "score", None)
        self._counts = {"few": 0, "flat": 0}
        self._solved = 0.0
        """the largest share of prompts, in any rollout batch, that a completion solved"""

    def scores(self, found: dict[str, float], truncated: float = 0.0) -> None:
        """Look at one rollout batch's scores; `truncated` is the share of completions cut at the limit."""
        self._solved = max(self._solved, *(x for k, x in found.items() if k.startswith("pass@")))
        cause, advice = _flat_advice(found, truncated, self._solved)
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


def _flat_advice(found: dict[str, float], truncated: float, solved: float) -> tuple[str, str]:
    if found["groups/excluded"] > 0.5:
        return (
            f"{found['groups/excluded']:.0%} of completions are truncated or unscored",
            "raise max_completion_length, keep truncated completions with mask_truncated_completions=False, "
            "or mend the scorer if reward_failures is high",
        )
    if found["groups/all_fail"] >= found["groups/all_pass"]:
        advice = "take easier prompts, more candidates (num_generations) or a partial score"
        if solved > 0.5:
            return f"nearly all fail, where once {solved:.0%} of prompts were solved", (
                "the policy has fallen. Go back to a checkpoint from before, with a lower learning_rate or "
                f"fewer num_iterations; or, if prompts have become harder, {advice}"
            )
        if truncated > 0.5:
            cause = f"nearly all fail, and {truncated:.0%} reach the limit of tokens"
            return cause, f"raise max_completion_length, or {advice}"
        return "nearly all fail", advice
    return "nearly all pass", "take harder prompts"

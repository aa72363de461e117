"""Metrics of a rollout batch's groups, which every engine logs, and the warnings that follow from them."""

from __future__ import annotations

import warnings
from collections import deque
from statistics import fmean
from typing import Any

import torch

import tpo
from tpo import diagnostics
from tpo.objectives import Objective

MIN_EFFECTIVE_CANDIDATES = 2.0
"""With fewer effective candidates, one candidate has nearly all of its group's probability."""
MAX_UNINFORMATIVE = 0.8
"""A warning is due if more than this share of groups is not informative."""
SOLVED_BEFORE = 0.3
"""A policy collapsed if it solved more than this share of prompts, and now less than a quarter of that."""


def score_metrics(group: tpo.Groups, success: float) -> dict[str, float]:
    """`group_metrics` of a group's scores; a candidate that counts only in the scores is excluded as well."""
    valid = valid_candidates(group)
    scored = valid if group.scored is None else group.scored & valid.any(-1, keepdim=True)
    metrics = group_metrics(group.total, scored, success)
    return {**metrics, "groups/excluded": 1 - valid.double().mean().item()}


def group_metrics(scores: torch.Tensor, valid: torch.Tensor, success: float) -> dict[str, float]:
    """Shares of groups that are not informative, and of prompts solved by at least one candidate; of [G, K].

    A group of which every candidate is excluded is not informative, and its prompt is not solved.
    """
    shares = diagnostics.group_shares(scores, valid, success)
    not_empty, included = torch.stack(
        [valid.any(-1).double().mean(), valid.double().mean()]
    ).tolist()
    flat, fail, solved = torch.stack(list(shares)).tolist()
    return {
        "groups/zero_variance": 1 - not_empty * (1 - flat),
        "groups/all_fail": not_empty * fail,
        "groups/all_pass": not_empty * solved,
        "groups/excluded": 1 - included,
        f"pass@{scores.shape[-1]}": not_empty * (1 - fail),
    }


def valid_candidates(group: tpo.Groups) -> torch.Tensor:
    """[G, K]; a rollout batch always says which candidates count."""
    assert group.valid is not None
    valid: torch.Tensor = group.valid
    return valid


class GroupWarnings:
    """Warns once, with advice, when in `patience` consecutive rollout batches few groups were informative.

    After a resume, what the run solved before is not known.
    """

    def __init__(self, patience: int, objective: Objective) -> None:
        """Count from 0."""
        self.patience = patience
        self.score = getattr(objective, "score", None)
        self._consecutive = {"few candidates": 0, "uninformative": 0}
        self._solved: deque[float] = deque(maxlen=patience)
        """shares of prompts that a completion solved, of the last `patience` rollout batches"""
        self._best_solved = 0.0
        """the largest mean of `patience` consecutive shares"""

    def check_scores(self, metrics: dict[str, float], truncated: float = 0.0) -> None:
        """Look at one rollout batch's scores; `truncated` is the share of completions that hit the limit."""
        self._solved += [x for name, x in metrics.items() if name.startswith("pass@")]
        if len(self._solved) == self.patience:
            self._best_solved = max(self._best_solved, fmean(self._solved))
        cause, advice = self._explanation(metrics, truncated)
        self._count(
            "uninformative",
            metrics["groups/zero_variance"] > MAX_UNINFORMATIVE,
            f"in the last {self.patience} rollout batches most groups were not informative "
            f"({metrics['groups/zero_variance']:.0%} of groups have zero variance now; {cause}): {advice}",
        )

    def check_fit(self, metrics: dict[str, Any]) -> None:
        """Look at one rollout batch's target."""
        if "target/effective_candidates" in metrics:
            n = metrics["target/effective_candidates"]
            self._count(
                "few candidates",
                n < MIN_EFFECTIVE_CANDIDATES,
                f"in the last {self.patience} rollout batches one candidate had nearly all the probability of "
                f"its group ({n:.2f} effective candidates now), so the others learn nothing: "
                f"score={self.score!r} does that on long completions. Set score='ratio'",
            )

    def _count(self, name: str, exceeded: bool, message: str) -> None:
        self._consecutive[name] = self._consecutive[name] + 1 if exceeded else 0
        if self._consecutive[name] == self.patience:
            warnings.warn(message, stacklevel=4)

    def _explanation(self, metrics: dict[str, float], truncated: float) -> tuple[str, str]:
        """Why groups are not informative, and what to do."""
        fail, passed = metrics["groups/all_fail"], metrics["groups/all_pass"]
        if metrics["groups/excluded"] > 0.5:
            return (
                f"{metrics['groups/excluded']:.0%} of completions are truncated or unscored",
                "raise max_completion_length, keep truncated completions with "
                "drop_truncated_completions=False and mask_truncated_completions=False, "
                "or fix the scorer if reward_failures is high",
            )
        if min(fail, passed) > 0.1:
            return (
                f"{fail:.0%} always fail and {passed:.0%} always pass",
                "take prompts of a difficulty in between",
            )
        if passed > fail:
            return "nearly all succeed", "take harder prompts"
        advice = "take easier prompts, more candidates (num_generations) or a partial score"
        if self._best_solved > SOLVED_BEFORE and fmean(self._solved) < self._best_solved / 4:
            limit = f", and {truncated:.0%} reach the token limit" if truncated > 0.5 else ""
            return (
                f"nearly all fail; earlier, {self._best_solved:.0%} of prompts were solved{limit}",
                (
                    "the policy has collapsed. Go back to an earlier checkpoint, with a lower learning rate or "
                    f"fewer epochs per batch; or, if prompts have become harder, {advice}"
                ),
            )
        if truncated > 0.5:
            cause = f"nearly all fail, and {truncated:.0%} reach the token limit"
            return cause, f"raise max_completion_length, or {advice}"
        return "nearly all fail", advice

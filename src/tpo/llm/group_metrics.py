"""What is logged of a rollout batch's groups, for every engine, and the warnings that come of it."""

from __future__ import annotations

import warnings
from collections import deque
from statistics import fmean
from typing import Any

import torch

import tpo
from tpo import diagnostics
from tpo.objectives import Objective

FEW = 2.0
"""Fewer effective candidates than this: one candidate stands for its group."""
MOST = 0.8
"""A share of groups without a signal from which a warning is due."""
ONCE = 0.3
"""A policy that solved more than this share of prompts, and now less than a quarter of that, has fallen."""


def score_metrics(group: tpo.Groups, success: float) -> dict[str, float]:
    """`group_metrics` of a group's scores; a candidate that counts only in the scores is excluded as well."""
    valid = valid_candidates(group)
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


def valid_candidates(group: tpo.Groups) -> torch.Tensor:
    """[G, K]; a rollout batch always says which candidates count."""
    assert group.valid is not None
    found: torch.Tensor = group.valid
    return found


class GroupWarnings:
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

    def check_scores(self, found: dict[str, float], truncated: float = 0.0) -> None:
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

    def check_fit(self, found: dict[str, Any]) -> None:
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

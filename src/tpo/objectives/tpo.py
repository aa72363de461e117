"""Target policy optimization (TPO), with its options for language models."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from tpo.arrays import Array
from tpo.groups import Groups, masked
from tpo.objectives.annealing import annealed
from tpo.objectives.base import Traits, choice, flag, nonnegative, numbers, positive
from tpo.objectives.group_weights import composed_weights, weight_option
from tpo.objectives.kl_budget import within_budget
from tpo.objectives.score_scales import EACH_REWARD, SCALES, each_reward, scaled_scores
from tpo.objectives.target_matching import (
    SCORES,
    PreparedTarget,
    TargetObjective,
    log_scores_of,
    same_outcome,
    score_rule,
    tilted,
)


@dataclass(frozen=True)
class TPO(TargetObjective):
    r"""Build the target q ∝ p_old·exp(u/eta) once, then fit p to it by cross-entropy.

    .. math:: q_i \propto p^{old}_i\, e^{u_i/\eta}, \qquad L = -\frac{1}{B}\sum_b\sum_i q_i \log p_i,
              \qquad \frac{\partial L}{\partial \ell_i} = \frac{p_i - q_i}{B}

    Shapes: u, q, p are [B, K]; p is the softmax over the K log-scores of a context, one per candidate.
    `score` makes that log-score from token log-probs: `sum` (the paper), `mean` over tokens, `ratio` (the
    sum of log-ratios to the rollout snapshot, so p_old is uniform) or `mean_ratio`. For completions of
    more than a few tokens use one of the last three: with the sum, p_old is nearly one-hot.
    `scale` is what centred scores are divided by: `sigma` of the group, `one`, the group's `mean` (MaxRL) or
    `batch_sigma`. `each_reward` standardises each of several rewards as GDPO does, with `reward_weights`.
    `sigma_floor` is the smallest sigma that scores are divided by. With it, a group of nearly equal scores has
    a target near p_old.
    `kl_budget`, if above 0, replaces `eta`: each group has the eta at which KL(q‖p_old) is the budget.
    `eta_final`, if above 0, anneals `eta`: it is eta^(1-s)·eta_final^s when a share s of training is done
    (`groups.progress`).
    `anchor=False` drops p_old from the target (the ablation `tpo_no_anchor`).
    `ties="pooled"` (registered as `tpo_outcomes`) pools candidates with equal scores into one outcome. Only the
    sums Q and P of q and p over each outcome are fitted; how its candidates divide P is not anchored to p_old.
    The gradient is :math:`p_i (1 - Q/P)`. If `anchor` is True, it equals the paper's (`ties="anchored"`) at the
    snapshot. It equals it everywhere if no two scores are equal, as with a reward that has a continuous part.

    `weight` scales each group's loss, and leaves its target alone. With binary scores and success rate p, a
    group's gradient at the snapshot is (mean over successes - mean over failures) times about 1 - p, which is
    that of the log-likelihood of a success. `weight="accuracy"` makes the factor p(1 - p), the gradient of
    expected accuracy. `weight="pass@k"` makes it k·p(1 - p)^k, that of pass@k (`group_weights`).
    `weight="gate"` is DG's gate between groups. `task_logits` give shares to tasks, as in `mt_grpo`.

    Edge cases: a zero-variance group has u = 0, so q = p_old and the gradient is 0 at the snapshot. With
    pooled ties it is a single outcome, and the gradient is 0 everywhere.

    Source: arXiv 2604.06159, Eq. 2 and 3.

    Deviates: nothing by default. Pooled ties, scales other than `sigma`, KL budgets, weights of groups and the
    scores other than `sum` are additions for language models.
    """

    traits: ClassVar[Traits] = Traits("target", whole_groups=True)

    eta: float = positive(1.0)
    score: str = choice("sum", *SCORES)
    anchor: bool = flag(True)
    ties: str = choice(
        "anchored", "anchored", "pooled", formerly={"held": "anchored", "free": "pooled"}
    )
    scale: str = choice("sigma", *SCALES, EACH_REWARD)
    sigma_floor: float = nonnegative(0.0)
    reward_weights: tuple[float, ...] = numbers(())
    kl_budget: float = nonnegative(0.0)
    weight: str = weight_option("target")
    task_logits: tuple[float, ...] = numbers(())
    eta_final: float = nonnegative(0.0)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.eta_final and self.kl_budget:
            raise ValueError(
                f"TPO: eta_final is {self.eta_final} and kl_budget {self.kl_budget}: both choose eta, set one"
            )
        if not self.anchor and self.weight not in ("target", "gate") and "ratio" not in self.score:
            raise ValueError(
                f"TPO: weight {self.weight!r} scales a gradient that moves p_old towards its target, and "
                "without the anchor the target may be on the other side: leave anchor on, or take "
                "score='ratio', where p_old is uniform"
            )

    def _prepare(self, groups: Groups) -> Any:
        xp, valid = groups.xp, groups.valid
        rule = score_rule(groups, self.score)
        log_scores = log_scores_of(xp, groups.log_probs_old, rule)
        u = self._scaled_scores(groups)
        anchor = log_scores if self.anchor else xp.zeros_like(u)
        eta = self.eta
        if self.kl_budget:
            u, eta = within_budget(xp, anchor, u, self.kl_budget, valid), 1.0
        if self.eta_final:
            u, eta = u / annealed(groups, self.eta, self.eta_final), 1.0
        q = masked(xp, xp.softmax(tilted(xp, anchor, u, eta, valid)), valid)
        same = same_outcome(groups) if self.ties == "pooled" else None
        weights = composed_weights(groups, self.weight, self.task_logits, log_scores, q)
        return PreparedTarget(
            groups.log_probs_old, rule, q, valid, same_outcome=same, weights=weights
        )

    def _scaled_scores(self, groups: Groups) -> Array:
        """[B, K] u"""
        if self.scale == EACH_REWARD:
            return each_reward(groups, self.reward_weights, self.sigma_floor)
        return scaled_scores(groups, self.scale, self.sigma_floor)

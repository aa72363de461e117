"""Target policy optimization (TPO), with its options for language models."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from tpo.groups import Groups, masked, z_scores
from tpo.objectives.base import Traits, choice, flag, nonnegative, positive
from tpo.objectives.group_weights import attempts, group_weights, weight_option
from tpo.objectives.target_matching import (
    SCORES,
    PreparedTarget,
    TargetObjective,
    log_scores_of,
    probabilities,
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
    `sigma_floor` is the smallest sigma that scores are divided by. With it, a group of nearly equal scores has
    a target near p_old.
    `anchor=False` drops p_old from the target (the ablation `tpo_no_anchor`).
    `ties="pooled"` (registered as `tpo_outcomes`) pools candidates with equal scores into one outcome. Only the
    sums Q and P of q and p over each outcome are fitted; how its candidates divide P is not anchored to p_old.
    The gradient is :math:`p_i (1 - Q/P)`. If `anchor` is True, it equals the paper's (`ties="anchored"`) at the
    snapshot. It equals it everywhere if no two scores are equal, as with a reward that has a continuous part.

    `weight` scales each group's loss, and leaves its target alone. With binary scores and success rate p, a
    group's gradient at the snapshot is (mean over successes - mean over failures) times about 1 - p, which is
    that of the log-likelihood of a success. `weight="accuracy"` makes the factor p(1 - p), the gradient of
    expected accuracy. `weight="pass@k"` makes it k·p(1 - p)^k, that of pass@k (`group_weights`).

    Edge cases: a zero-variance group has u = 0, so q = p_old and the gradient is 0 at the snapshot. With
    pooled ties it is a single outcome, and the gradient is 0 everywhere.

    Source: arXiv 2604.06159, Eq. 2 and 3.

    Deviates: nothing by default. Pooled ties, weights of groups and the scores other than `sum` are additions
    for language models.
    """

    traits: ClassVar[Traits] = Traits("target", whole_groups=True)

    eta: float = positive(1.0)
    score: str = choice("sum", *SCORES)
    anchor: bool = flag(True)
    ties: str = choice(
        "anchored", "anchored", "pooled", formerly={"held": "anchored", "free": "pooled"}
    )
    sigma_floor: float = nonnegative(0.0)
    weight: str = weight_option("target")

    def _prepare(self, groups: Groups) -> Any:
        xp = groups.xp
        rule = score_rule(groups, self.score)
        u = z_scores(xp, groups.total, groups.counted, self.sigma_floor)
        log_scores = log_scores_of(xp, groups.log_probs_old, rule)
        anchor = log_scores if self.anchor else xp.zeros_like(u)
        q = masked(xp, xp.softmax(tilted(xp, anchor, u, self.eta, groups.valid)), groups.valid)
        same = same_outcome(groups) if self.ties == "pooled" else None
        found = PreparedTarget(groups.log_probs_old, rule, q, groups.valid, same_outcome=same)
        if self.weight == "target":
            return found
        p_old = probabilities(xp, log_scores, groups.valid)
        k = attempts(self.weight)
        return found._replace(weights=group_weights(xp, p_old, q, groups.informative, k))

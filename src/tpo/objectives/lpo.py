"""Listwise policy optimization (LPO): a target over log-ratios, fitted under one of four divergences."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

from tpo.arrays import Array, Namespace
from tpo.groups import Groups, group_log_softmax, masked
from tpo.objectives.base import Traits, choice, inside_unit, nonnegative, positive
from tpo.objectives.kl_budget import within_budget
from tpo.objectives.score_scales import SCALES, scaled_scores
from tpo.objectives.target_matching import (
    SCORES,
    PreparedTarget,
    TargetObjective,
    count_contexts,
    log_scores_of,
    pulled_back,
    score_rule,
    tilted,
)


class Divergence(NamedTuple):
    """D(P, w) = Σ_i value_i and pull_i = P_i ∂D/∂P_i. Both take log P and log w, so that nothing overflows."""

    value: Callable[[Namespace, Array, Array, float], Array]
    pull: Callable[[Namespace, Array, Array, float], Array]


def _log_mixture(xp: Namespace, log_p: Array, log_w: Array) -> Array:
    """log((P + w)/2)"""
    top = -xp.minimum(-log_p, -log_w)
    return top + xp.log((xp.exp(log_p - top) + xp.exp(log_w - top)) / 2)


def _js(xp: Namespace, log_p: Array, log_w: Array, _: float) -> Array:
    log_m = _log_mixture(xp, log_p, log_w)
    return (xp.exp(log_p) * (log_p - log_m) + xp.exp(log_w) * (log_w - log_m)) / 2


def _alpha(xp: Namespace, log_p: Array, log_w: Array, a: float) -> Array:
    between = xp.exp(a * log_p + (1 - a) * log_w)
    return (a * xp.exp(log_p) + (1 - a) * xp.exp(log_w) - between) / (a * (1 - a))


DIVERGENCES = {
    "reverse": Divergence(
        value=lambda xp, log_p, log_w, _: xp.exp(log_p) * (log_p - log_w),
        pull=lambda xp, log_p, log_w, _: xp.exp(log_p) * (log_p - log_w),
    ),
    "js": Divergence(
        value=_js,
        pull=lambda xp, log_p, log_w, _: (
            xp.exp(log_p) * (log_p - _log_mixture(xp, log_p, log_w)) / 2
        ),
    ),
    "alpha": Divergence(
        value=_alpha,
        pull=lambda xp, log_p, log_w, a: (
            (xp.exp(log_p) - xp.exp(a * log_p + (1 - a) * log_w)) / (1 - a)
        ),
    ),
}
"""`reverse` is KL(P‖w), `js` Jensen-Shannon, `alpha` Amari's; `forward`, KL(w‖P), is in `TargetObjective`."""


@dataclass(frozen=True)
class LPO(TargetObjective):
    r"""Project the group's policy P onto the listwise target w* under a chosen divergence.

    .. math:: w^* = \mathrm{softmax}\left(\frac{R}{\eta\,\tau} + s_t\right), \quad
              P = \mathrm{softmax}(s), \quad s_i = \frac{1}{|o_i|}\sum_t \log\frac{\pi_\theta}{\pi_b}, \quad
              \frac{\partial D}{\partial s_i} = P_i(\frac{\partial D}{\partial P_i}
              - \sum_j P_j \frac{\partial D}{\partial P_j})

    Shapes: s, w*, P are [B, K]. :math:`\pi_b` is `log_probs_rollout` where the group has it, else the
    snapshot, so that on-policy s is 0 and P uniform; :math:`s_t` is s at the snapshot.
    `tau` is `sigma` (of the group: matches GRPO), `one` (Dr. GRPO), `mean` (of the group: MaxRL) or
    `batch_sigma`; `divergence` is `forward`, `reverse`, `js` or `alpha` (Amari's, by `alpha`).
    Per-token log-ratios are clipped to [log(1 - clip), log(1 + clip)]. `kl_budget`, if above 0, replaces `eta`
    as in TPO: KL(w*‖softmax(s_t)) is the budget.

    Edge cases: if tau is 0 (equal scores, or a mean of 0), R/tau counts as 0 and w* = softmax(s_t).

    Source: arXiv 2605.06139; `js` and `alpha` are open questions of the TPO talk.

    Deviates: eta multiplies tau (1 in the paper); KL budgets are an addition; `score` may be any of
    TPO's four; with a `sum` or `mean` score the logits are log-probs, not log-ratios, and are not clipped. A
    mean of 0 or below counts as tau = 0.
    """

    traits: ClassVar[Traits] = Traits("target", tokens=True, behaviour=True, whole_groups=True)

    divergence: str = choice("forward", "forward", *DIVERGENCES)
    tau: str = choice("sigma", *SCALES)
    eta: float = positive(1.0)
    alpha: float = inside_unit(0.5)
    score: str = choice("mean_ratio", *SCORES)
    clip: float = inside_unit(0.2)
    kl_budget: float = nonnegative(0.0)

    def _prepare(self, groups: Groups) -> Any:
        xp = groups.xp
        rule = score_rule(groups, self.score)
        if self.score.endswith("ratio"):
            rule = rule._replace(clip=(math.log1p(-self.clip), math.log1p(self.clip)))
            if groups.log_probs_rollout is not None:
                rule = rule._replace(offset=groups.log_probs_rollout)
        s_t = log_scores_of(xp, groups.log_probs_old, rule)
        u, eta = scaled_scores(groups, self.tau), self.eta
        if self.kl_budget:
            u, eta = within_budget(xp, s_t, u, self.kl_budget, groups.valid), 1.0
        logits = tilted(xp, s_t, u, eta, groups.valid)
        w = masked(xp, xp.softmax(logits), groups.valid)
        log_w = None if self.divergence == "forward" else xp.log_softmax(logits)
        return PreparedTarget(groups.log_probs_old, rule, w, groups.valid, log_w)

    def _logs(
        self, xp: Namespace, log_probs: Array, prepared: PreparedTarget
    ) -> tuple[Array, Array]:
        """log P and log w*, both 0 on masked candidates."""
        log_scores = log_scores_of(xp, log_probs, prepared.rule)
        log_p = group_log_softmax(xp, log_scores, prepared.candidates)
        return masked(xp, log_p, prepared.candidates), masked(
            xp, prepared.log_q, prepared.candidates
        )

    def _loss(self, xp: Namespace, log_probs: Array, prepared: Any) -> Array:
        if self.divergence == "forward":
            return super()._loss(xp, log_probs, prepared)
        log_p, log_w = self._logs(xp, log_probs, prepared)
        per_candidate = DIVERGENCES[self.divergence].value(xp, log_p, log_w, self.alpha)
        return xp.sum(masked(xp, per_candidate, prepared.candidates)) / count_contexts(log_p)

    def _coefficients(self, xp: Namespace, log_probs: Array, prepared: Any) -> Array:
        if self.divergence == "forward":
            return super()._coefficients(xp, log_probs, prepared)
        log_p, log_w = self._logs(xp, log_probs, prepared)
        p = masked(xp, xp.exp(log_p), prepared.candidates)
        pull = DIVERGENCES[self.divergence].pull(xp, log_p, log_w, self.alpha)
        pull = masked(xp, pull, prepared.candidates)
        c = pull - p * xp.sum(pull, axis=-1, keepdims=True)
        return pulled_back(xp, c, log_probs, prepared.rule)

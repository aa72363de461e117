"""The target family: a distribution q over the group (TPO's Eq. 2), and its fit by cross-entropy (Eq. 3)."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

from tpo import checks
from tpo.arrays import Array, Namespace
from tpo.groups import LOW, Groups, group_log_softmax, masked, rounding
from tpo.objectives.base import Objective

SCORES = ("sum", "mean", "ratio", "mean_ratio")


def target(log_scores_old: Array, u: Array, eta: float = 1.0, mask: Array | None = None) -> Array:
    r"""q_i ∝ p_old_i · exp(u_i/eta) over the last axis: the distribution the policy should reach.

    .. math:: q_i = \frac{p^{old}_i\, e^{u_i/\eta}}{\sum_j p^{old}_j\, e^{u_j/\eta}}

    All [..., K]. If u is 0 throughout a group, q is exactly p_old. A masked candidate has q = 0.
    No gradient flows through q, even if p_old has one.
    Source: TPO, arXiv 2604.06159, Eq. 2.
    """
    xp = _finite(mask, log_scores_old=log_scores_old, u=u)
    checks.positive("eta", eta)
    logits = tilted(xp, xp.stop_gradient(log_scores_old), xp.stop_gradient(u), eta, mask)
    return masked(xp, xp.softmax(logits), mask)


def _finite(mask: Array | None, **arrays: Array) -> Namespace:
    """The namespace of groups of candidates that hold no NaN and no infinity where nothing is masked."""
    xp = checks.grouped(mask, **arrays)
    for name, x in arrays.items():
        checks.finite(xp, name, masked(xp, x, mask), "mark that candidate False in mask=...")
    return xp


def tilted(xp: Namespace, log_scores: Array, u: Array, eta: float, mask: Array | None) -> Array:
    """The logits of q in Eq. 2. The top log-score is shifted to 0: added to -1e4, u would lose its low bits."""
    log_scores = masked(xp, log_scores, mask, LOW)
    top = xp.amax(log_scores, axis=-1, keepdims=True)
    return log_scores - top + (u if eta == 1 else u / eta)


def loss(log_scores: Array, q: Array, mask: Array | None = None) -> Array:
    r"""L = -Σ q_i log p_i, p = softmax(log_scores) over the group; the mean over contexts.

    .. math:: L = -\frac{1}{B}\sum_b \sum_i q_{bi} \log p_{bi}

    All [..., K]; a scalar. A fully masked group adds 0 to the sum and counts in the mean.
    Source: TPO, arXiv 2604.06159, Eq. 3.
    """
    xp = _finite(mask, log_scores=log_scores, q=q)
    return cross_entropy(xp, log_scores, q, mask)


def cross_entropy(
    xp: Namespace, log_scores: Array, q: Array, mask: Array | None, same: Array | None = None
) -> Array:
    """Eq. 3 without checks. With pooled ties (`same`) it is that of outcomes, -Σ Q log P = -Σ q_i log P_i."""
    log_p = by_outcome(xp, group_log_softmax(xp, log_scores, mask), same)
    return xp.sum(q * log_p) * (-1 / count_contexts(log_scores))


def coefficients(log_scores: Array, q: Array, mask: Array | None = None) -> Array:
    r"""c_i = p_i - q_i: the exact dL/d log_scores of one context, without the mean over the batch.

    .. math:: \frac{\partial L}{\partial \ell_i} = p_i - q_i

    All [..., K]. It is 0 when the target is reached, and sums to 0 over a group.
    Source: TPO, arXiv 2604.06159, section 2.
    """
    xp = _finite(mask, log_scores=log_scores, q=q)
    return probabilities(xp, log_scores, mask) - q


def probabilities(xp: Namespace, log_scores: Array, mask: Array | None) -> Array:
    """p = softmax(log_scores) over the group, 0 for a masked candidate."""
    return masked(xp, xp.softmax(masked(xp, log_scores, mask, LOW)), mask)


def count_contexts(log_scores: Array) -> int:
    """The number of groups in [..., K]; 1 for an empty batch, whose sums are 0 anyway."""
    n = 1
    for size in log_scores.shape[:-1]:
        n *= size
    return max(n, 1)


class ScoreRule(NamedTuple):
    """How token log-probs become one log-score per candidate: Σ_t scale·clip(log_prob - offset)."""

    offset: Array | None
    """[B, K, T], or None for 0"""
    scale: Array | float | None
    """[B, K, 1] or a number: 1/length for a mean; None for a sum"""
    tokens: Array | None
    clip: tuple[float, float] | None = None


def score_rule(groups: Groups, score: str) -> ScoreRule:
    """The rule of one of the four sequence scores. If T = 1, a mean is the token itself."""
    mean = score.startswith("mean") and tuple(groups.log_probs_old.shape[2:]) != (1,)
    return ScoreRule(
        offset=groups.log_probs_old if score.endswith("ratio") else None,
        scale=1.0 / groups.lengths if mean else None,
        tokens=groups.mask,
    )


def log_scores_of(xp: Namespace, log_probs: Array, rule: ScoreRule) -> Array:
    """[B, K] one log-score per candidate."""
    per_token = token_terms(xp, log_probs, rule)
    if rule.clip is not None:
        per_token = xp.clip(per_token, *rule.clip)
    return xp.sum(per_token if rule.scale is None else per_token * rule.scale, axis=-1)


def token_terms(xp: Namespace, log_probs: Array, rule: ScoreRule) -> Array:
    """[B, K, T] what a log-score sums, before it is clipped: log-probs or log-ratios, 0 where masked."""
    per_token = masked(xp, log_probs, rule.tokens)
    return per_token if rule.offset is None else per_token - rule.offset


def pulled_back(xp: Namespace, c: Array, log_probs: Array, rule: ScoreRule) -> Array:
    """[B, K, T] the chain rule from c = dL/d log_scores of a context to dL/d log_probs of the batch."""
    scale = 1.0 if rule.scale is None else rule.scale
    per_token = c[..., None] * scale / count_contexts(c) + xp.zeros_like(log_probs)
    if rule.clip is not None:
        unclipped = token_terms(xp, log_probs, rule)
        inside = (unclipped > rule.clip[0]) & (unclipped < rule.clip[1])
        per_token = xp.where(inside, per_token, 0.0)
    return masked(xp, per_token, rule.tokens)


class PreparedTarget(NamedTuple):
    """The target q, which is fixed, and the rule for the log-scores that are fitted to it."""

    log_probs_old: Array
    rule: ScoreRule
    q: Array
    """[B, K]; with `same_outcome`, only the sums of q over each outcome matter"""
    candidates: Array | None
    log_q: Array | None = None
    """[B, K] log q, for divergences that need it where q underflows"""
    same_outcome: Array | None = None
    """[B, K, K] which candidates belong to the same outcome (pooled ties); None without pooling"""
    weights: Array | None = None
    """[B, 1] of each context in the mean; None for 1"""

    def weighted(self, x: Array) -> Array:
        """[B, K] `x` times the weight of its context."""
        return x if self.weights is None else self.weights * x


def same_outcome(groups: Groups) -> Array:
    """[B, K, K] whether two candidates have equal scores, up to rounding."""
    xp, scores = groups.xp, masked(groups.xp, groups.total, groups.valid)
    apart = xp.abs(scores[..., :, None] - scores[..., None, :])
    return apart <= rounding(xp, scores)[..., None]


def by_outcome(xp: Namespace, log_p: Array, same: Array | None) -> Array:
    """[B, K] log P of each candidate's outcome: P is the sum of p over the candidates with its score."""
    if same is None:
        return log_p
    together = xp.where(same, log_p[..., None, :], LOW)
    top = xp.stop_gradient(xp.amax(together, axis=-1, keepdims=True))
    return top[..., 0] + xp.log(xp.sum(xp.exp(together - top), axis=-1))


def misfit(xp: Namespace, log_scores: Array, prepared: PreparedTarget) -> Array:
    """[B, K] dL/d log_scores of a context: p - q, or p·(1 - Q/P) with pooled ties.

    The latter is computed as p/P·(mass of q in other outcomes - mass of p there): 0 if there is none.
    """
    p, same = probabilities(xp, log_scores, prepared.candidates), prepared.same_outcome
    if same is None:
        return p - prepared.q
    log_scores = masked(xp, log_scores, prepared.candidates, LOW)
    share = xp.exp(log_scores - by_outcome(xp, log_scores, same))
    elsewhere = xp.sum(xp.where(same, 0.0, (prepared.q - p)[..., None, :]), axis=-1)
    return masked(xp, share * elsewhere, prepared.candidates)


class TargetObjective(Objective):
    """Base class of the family: cross-entropy to the target, with its gradient in closed form."""

    prepared_type: ClassVar[type] = PreparedTarget

    def _loss(self, xp: Namespace, log_probs: Array, prepared: Any) -> Array:
        log_scores = log_scores_of(xp, log_probs, prepared.rule)
        q = prepared.weighted(prepared.q)
        return cross_entropy(xp, log_scores, q, prepared.candidates, prepared.same_outcome)

    def _coefficients(self, xp: Namespace, log_probs: Array, prepared: Any) -> Array:
        log_scores = log_scores_of(xp, log_probs, prepared.rule)
        c = prepared.weighted(misfit(xp, log_scores, prepared))
        return pulled_back(xp, c, log_probs, prepared.rule)

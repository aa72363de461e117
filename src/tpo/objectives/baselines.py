"""Baselines with the least variance: a constant per context (OPO), and one per token (OTB)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from tpo import checks
from tpo.arrays import Array
from tpo.groups import Groups, masked
from tpo.objectives.advantages import centred
from tpo.objectives.base import Traits, choice
from tpo.objectives.parts import LIKELIHOOD, Composed, Mean, Parts


def optimal_baseline(rewards: Array, squared_norms: Array, weights: Array | None = None) -> Array:
    r"""b* = E[R‖s‖²]/E[‖s‖²]: no other constant gives (R - b)·s less variance, s = ∇ log pi of the sample.

    .. math:: b^* = \frac{\mathbb{E}[R\,\|s\|^2]}{\mathbb{E}[\|s\|^2]}
              = \mathbb{E}[R] + \frac{\mathrm{Cov}(R, \|s\|^2)}{\mathbb{E}[\|s\|^2]}

    rewards, squared_norms: [..., N]; the expectation is over the last axis, with `weights` (such as exact
    probabilities, by default equal ones). Returns [...]. Estimated from the samples it is subtracted from, it
    is no constant and adds a bias of order 1/N. If every norm is 0 it is 0.
    Source: Greensmith, Bartlett, Baxter, JMLR 5, 2004.
    """
    given = {} if weights is None else {"weights": weights}
    xp = checks.alike(rewards=rewards, squared_norms=squared_norms, **given)
    sizes = squared_norms if weights is None else squared_norms * weights
    total = xp.sum(sizes, axis=-1)
    return xp.sum(rewards * sizes, axis=-1) / xp.where(total > 0, total, 1.0)


def score_norms(groups: Groups) -> Array:
    """[B, K, T] ‖∇ log pi‖² of each token by its logits, 1 - 2 pi + Σ_v pi_v²; 0 where masked.

    The sum over the vocabulary is `groups.sum_pi_squared`. Without it the token's own pi is
    taken, which is right on average over the sampled tokens, but not for each of them.
    """
    xp = groups.xp
    pi = xp.exp(groups.log_probs_old)
    squares = pi if groups.sum_pi_squared is None else groups.sum_pi_squared
    return masked(xp, 1 - 2 * pi + squares, groups.mask)


@dataclass(frozen=True)
class OPO(Composed):
    r"""REINFORCE with the baseline of least variance, where longer answers count more.

    .. math:: b = \frac{\sum_i w_i R_i}{\sum_i w_i}, \qquad w_i = |o_i|, \qquad
              L = -\frac{1}{BK}\sum_i (R_i - b)\sum_t\log\pi_{it}

    Shapes: scores [B, K]. The weights are the squared norm of ∇ log π of a sample, or a substitute. With
    `weights="length"` every token has the same norm. With `weights="score_norm"` it is that by the logits,
    :math:`1 - 2\pi + \sum_v \pi_v^2`, and b estimates the optimal baseline b*
    (`tpo.objectives.optimal_baseline`). The sum is `groups.sum_pi_squared`; without it the token's own π is
    taken.

    Edge cases: with equal lengths and `weights="length"` b is the group's mean.

    Source: optimal reward baseline, arXiv 2505.23585; b* is Greensmith et al., JMLR 5, 2004.

    Deviates: the paper is strictly on-policy, one update per batch; `score_norm` is ours.
    """

    traits: ClassVar[Traits] = Traits("policy gradient", epochs=False)

    weights: str = choice("length", "length", "score_norm")

    def parts(self) -> Parts:
        return Parts(advantage=self._above, surrogate=LIKELIHOOD, weights=Mean("candidate"))

    def _above(self, groups: Groups) -> Array:
        """[B, K] R - b"""
        xp, advantages = groups.xp, centred(groups)
        if self.weights == "length":
            sizes = xp.ones_like(advantages[..., None]) * groups.lengths
        else:
            sizes = xp.sum(score_norms(groups), axis=-1, keepdims=True)
        sizes = masked(xp, sizes[..., 0], groups.counted)
        return masked(
            xp, advantages - optimal_baseline(advantages, sizes)[..., None], groups.counted
        )


@dataclass(frozen=True)
class OTB(Composed):
    r"""REINFORCE with a baseline per position, which weighs candidates by what their tokens so far have moved.

    .. math:: b_t = \frac{\sum_i W_{it} R_i}{\sum_i W_{it}}, \qquad
              W_{it} = \sum_{j \le t}\Big(1 - 2\pi_{ij} + \sum_v\pi_v^2\Big), \qquad
              L = -\frac{1}{BK}\sum_i\sum_t (R_i - b_t)\log\pi_{it}

    Shapes: scores [B, K], b [B, T]; the sums over i run over the candidates that have a token t.

    Edge cases: from the position on where a single candidate is left, b is its own score.

    Source: optimal token baseline, verl's `optimal_token_baseline`.

    Deviates: without `groups.sum_pi_squared` the token's own π is taken for the sum over the vocabulary, whose
    one-sample estimate it is.
    """

    traits: ClassVar[Traits] = Traits("policy gradient", epochs=False, tokens=True)

    def parts(self) -> Parts:
        return Parts(advantage=self._above, surrogate=LIKELIHOOD, weights=Mean("candidate"))

    def _above(self, groups: Groups) -> Array:
        """[B, K, T] R - b_t"""
        xp = groups.xp
        sizes = masked(xp, xp.cumsum(score_norms(groups), axis=-1), groups.mask)
        scores = masked(xp, centred(groups)[..., None] + xp.zeros_like(sizes), groups.mask)
        total = xp.sum(sizes, axis=1, keepdims=True)
        b = xp.sum(sizes * scores, axis=1, keepdims=True) / xp.where(total > 0, total, 1.0)
        return masked(xp, scores - b, groups.mask)

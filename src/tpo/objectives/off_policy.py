"""Updates on samples of another policy without a trust region: TOPR, OPMD, and OAPL's regression."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from tpo.arrays import Array, Namespace
from tpo.groups import LOW, Groups, masked
from tpo.objectives.advantages import PER_CANDIDATE, centred
from tpo.objectives.base import Traits, choice, positive
from tpo.objectives.kl import LIMIT
from tpo.objectives.parts import Composed, Mean, Parts, Surrogate, from_behaviour
from tpo.objectives.surrogates import weighted_likelihood


@dataclass(frozen=True)
class TOPR(Composed):
    r"""Likelihood of good samples as they are; of bad ones times their ratio, at most 1.

    .. math:: L = -\frac{1}{BK}\sum_i \mathrm{sg}(w_i)\, A_i \sum_t \log\pi_{it}, \qquad
              w_i = \begin{cases} 1 & A_i \ge 0 \\ \min(\frac{\pi(o_i)}{\mu(o_i)}, 1) & A_i < 0 \end{cases}

    Shapes: A [B, K] is `advantage`; the ratio is the product over a candidate's tokens. μ is
    `log_probs_rollout`, or the snapshot without it.

    Edge cases: a bad sample that has become improbable is pushed no further, so the loss is bounded below. At
    π = μ it is REINFORCE with a group baseline.

    Source: Le Roux et al., arXiv 2503.14286, eq. 8.

    Deviates: the paper's baseline is a constant, which sets the share of good samples; by default ours is the
    group's mean (`advantage="score"` takes scores as they are).
    """

    traits: ClassVar[Traits] = Traits("policy gradient", behaviour=True)

    advantage: str = choice("centred", *(name for name in PER_CANDIDATE if name != "given"))

    def parts(self) -> Parts:
        return Parts(
            snapshot=from_behaviour,
            advantage=PER_CANDIDATE[self.advantage],
            ratio="sequence",
            surrogate=weighted_likelihood(self._taper),
            weights=Mean("candidate"),
        )

    def _taper(self, xp: Namespace, x: Array, advantages: Array) -> Array:
        return xp.where(advantages < 0, xp.exp(xp.clip(x, -LIMIT, 0.0)), 1.0)


@dataclass(frozen=True)
class OPMD(Composed):
    r"""Policy gradient with a squared log-ratio to the policy that sampled, instead of clipping.

    .. math:: L = \frac{1}{BK}\sum_i \Big[-A_i x_i + \frac\tau2 x_i^2\Big], \qquad
              x_i = \log\frac{\pi(o_i)}{\mu(o_i)}

    Shapes: A = R - mean within the group, [B, K]. With `granularity="token"` x is a token's log-ratio, and the
    terms are averaged over the batch's tokens. μ is `log_probs_rollout`, or the snapshot without it.

    Edge cases: the gradient vanishes at :math:`x_i = A_i/\tau`: like TPO, and unlike GRPO, it has a target.

    Source: Kimi k1.5, arXiv 2501.12599, eq. 3; the token form is verl's `dro` and ROLL's `kimi15`.

    Deviates: the paper does not state τ; 1e-3 is prime-rl's.
    """

    traits: ClassVar[Traits] = Traits("target", tokens=True, behaviour=True)

    tau: float = positive(1e-3)
    granularity: str = choice("sequence", "sequence", "token")

    def parts(self) -> Parts:
        return Parts(
            snapshot=from_behaviour,
            advantage=centred,
            ratio=self.granularity,
            surrogate=Surrogate(self._slope, self._squared, clamp=False),
            weights=Mean(self.granularity),
        )

    def _squared(self, xp: Namespace, x: Array, advantages: Array) -> Array:
        return self.tau / 2 * x * x - advantages * x

    def _slope(self, xp: Namespace, x: Array, advantages: Array) -> Array:
        return self.tau * x - advantages


@dataclass(frozen=True)
class OAPL(Composed):
    r"""Regress the log-ratio on the optimal advantage of KL-regularised RL. No ratio, no clipping.

    .. math:: L = \frac{1}{BK}\sum_i \big(\beta_2\, x_i - (R_i - V)\big)^2, \qquad
              V = \beta_1 \log \frac1K\sum_j e^{R_j/\beta_1}, \qquad x_i = \log\frac{\pi(o_i)}{\mu(o_i)}

    Shapes: R [B, K], V one number per context. With `anchor="rollout"` (OAPL) μ is `log_probs_rollout`, or the
    snapshot without it. With `anchor="reference"` (A*-PO) it is `log_probs_ref`.

    Edge cases: the target stays where it is however stale the samples are, since μ sampled them. Small β₁ makes
    V the group's best score, large β₁ its mean.

    Source: OAPL, arXiv 2602.19362; A*-PO, arXiv 2505.20686. β₁ and β₂ are those of TRL's A*-PO.

    Deviates: A*-PO estimates V before training, from the reference's samples; ours is of the group itself.
    """

    traits: ClassVar[Traits] = Traits("target", reference=True, behaviour=True)

    beta1: float = positive(0.5)
    beta2: float = positive(1e-3)
    anchor: str = choice("rollout", "rollout", "reference")

    def parts(self) -> Parts:
        return Parts(
            snapshot=self._anchored,
            advantage=self._optimal,
            ratio="sequence",
            surrogate=Surrogate(self._slope, self._squared, clamp=False),
            weights=Mean("sequence"),
        )

    def _anchored(self, groups: Groups) -> Groups:
        """The groups with log μ as `log_probs_old`."""
        if self.anchor == "rollout":
            return from_behaviour(groups)
        if groups.log_probs_ref is None:
            raise ValueError("anchor 'reference' needs log_probs_ref: pass it to tpo.Groups")
        return replace(groups, log_probs_old=groups.log_probs_ref)

    def _optimal(self, groups: Groups) -> Array:
        """[B, K] R - V; 0 for candidates that do not count."""
        xp, scores = groups.xp, groups.total
        scaled = masked(xp, scores / self.beta1, groups.counted, LOW)
        top = xp.amax(scaled, axis=-1, keepdims=True)
        mean = xp.sum(xp.exp(scaled - top), axis=-1, keepdims=True) / groups.sizes
        value = self.beta1 * (top + xp.log(mean))
        return masked(xp, scores - value, groups.counted)

    def _squared(self, xp: Namespace, x: Array, advantages: Array) -> Array:
        return (self.beta2 * x - advantages) * (self.beta2 * x - advantages)

    def _slope(self, xp: Namespace, x: Array, advantages: Array) -> Array:
        return 2 * self.beta2 * (self.beta2 * x - advantages)

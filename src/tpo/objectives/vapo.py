"""VAPO: PPO with a critic and length-adaptive GAE, for long answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

from tpo.arrays import Array, Namespace
from tpo.groups import Groups, masked
from tpo.objectives.advantages import critic
from tpo.objectives.base import Traits, inside_unit, nonnegative, positive
from tpo.objectives.parts import KL, Mean, Parts, WithKL, clip
from tpo.objectives.ratio import PreparedPolicy
from tpo.objectives.returns import length_adaptive_lambda


class PreparedVAPO(NamedTuple):
    """What PPO needs, and the weights of the likelihood term on correct answers."""

    log_probs_old: Array
    policy: PreparedPolicy
    correct: Array
    """[B, K, T] 1/n on each of the n tokens of correct answers"""


@dataclass(frozen=True)
class VAPO(WithKL):
    r"""Length-adaptive GAE, a higher upper clip bound, a token mean, and a likelihood term on correct answers.

    .. math:: L = -\frac{1}{\sum|o|}\sum
              \min(r\hat A, \mathrm{clip}(r, 1-\epsilon_{low}, 1+\epsilon_{high})\hat A)
              + \mu\, \mathrm{NLL}_{correct}, \qquad \lambda_{policy} = 1 - \frac{1}{\alpha\ell}

    Shapes: `groups.values` [B, K, T]; rewards are `token_scores`, or the score on the last token. A candidate
    is correct if its score is above `correct_above`; the NLL is a mean over the tokens of correct answers.

    Edge cases: λ is clamped to [0, 1]: answers of up to 1/α = 20 tokens get one-step TD.

    Source: VAPO, arXiv 2504.05118.

    Deviates: the critic is the trainer's. The lab trains one as the paper says: on Monte Carlo returns
    (λ_critic = 1), and for 50 episodes before the policy learns. That number is ours; the paper stops when
    the value loss and the explained variance are good. The lab takes one rollout per prompt, the paper several.
    """

    traits: ClassVar[Traits] = Traits("ratio", group=False, critic=True, tokens=True, kl=True)
    needs: ClassVar[tuple[str, ...]] = ("values",)
    critic_returns: ClassVar[str] = "monte_carlo"
    prepared_type: ClassVar[type] = PreparedVAPO

    clip_low: float = inside_unit(0.2)
    clip_high: float = nonnegative(0.28)
    alpha: float = positive(0.05)
    likelihood: float = nonnegative(0.1)
    correct_above: float = nonnegative(0.0)

    def parts(self) -> Parts:
        return Parts(
            advantage=self._length_adaptive,
            ratio="token",
            surrogate=clip(self.clip_low, self.clip_high),
            kl=KL(self.beta, self.kl_correction),
            weights=Mean("token"),
        )

    def _length_adaptive(self, groups: Groups) -> Array:
        lengths = groups.lengths + groups.xp.zeros_like(groups.log_probs_old[..., :1])
        return critic(groups, lam=length_adaptive_lambda(lengths, self.alpha))

    def _prepare(self, groups: Groups) -> Any:
        xp = groups.xp
        winners = xp.cast(groups.total > self.correct_above, groups.log_probs_old)[..., None]
        tokens = masked(xp, winners + xp.zeros_like(groups.log_probs_old), groups.mask)
        n = xp.clip(xp.sum(tokens), 1.0, None)
        return PreparedVAPO(groups.log_probs_old, super()._prepare(groups), tokens / n)

    def _loss(self, xp: Namespace, log_probs: Array, prepared: Any) -> Array:
        nll = -xp.sum(prepared.correct * masked(xp, log_probs, prepared.policy.tokens))
        return super()._loss(xp, log_probs, prepared.policy) + self.likelihood * nll

    def _coefficients(self, xp: Namespace, log_probs: Array, prepared: Any) -> Array:
        return (
            super()._coefficients(xp, log_probs, prepared.policy)
            - self.likelihood * prepared.correct
        )

"""Objectives of the ratio pi/pi_old: PPO, exact importance weights, and the KL penalties of TRPO and MDPO."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from tpo.arrays import Array, Namespace
from tpo.objectives.advantages import ADVANTAGES, PER_CANDIDATE
from tpo.objectives.aggregation import TOKEN_WEIGHTS
from tpo.objectives.base import (
    Traits,
    above_one,
    choice,
    flag,
    inside_unit,
    nonnegative,
    positive,
)
from tpo.objectives.kl_in_reward import less_kl
from tpo.objectives.parts import KL, Mean, Parts, Surrogate, WithKL, clip
from tpo.objectives.surrogates import IMPORTANCE


@dataclass(frozen=True)
class PPO(WithKL):
    r"""The clipped surrogate: no gain from moving a ratio beyond 1 ± clip.

    .. math:: L = -\mathrm{mean}\,\min(r A,\ \mathrm{clip}(r, 1-\epsilon, 1+\epsilon)A)
              + \beta\,k_3

    Shapes: r and A per token [B, K, T]; summed over tokens, averaged over candidates. `advantage` is as in
    `reinforce` (`position` by default, `gae` with a critic's `groups.values`). With `gae` the lab trains a
    critic on λ-returns, V plus the same Â; our trainers on TRL and verl have none. With `kl_in_reward` the KL
    of strength β is inside the reward, -β·log(pi_old/pi_ref) for each token as in RLHF, and not in the loss.
    With `dual_clip` (such as 3, arXiv 1912.09729) the loss is at most -`dual_clip`·A where A < 0.

    Edge cases: the gradient is 0 iff A > 0 and r > 1 + ε, or A < 0 and r < 1 - ε or above `dual_clip`.

    Source: Schulman et al., arXiv 1707.06347; the critic-free form of arXiv 2604.06159.

    Deviates: no critic and no value loss by default, no entropy bonus; the log-ratio is clamped to ±20.
    """

    traits: ClassVar[Traits] = Traits("ratio", group=False, tokens=True, kl=True)

    clip: float = inside_unit(0.2)
    advantage: str = choice("position", *ADVANTAGES)
    over: str = choice("candidate", *TOKEN_WEIGHTS)
    kl_in_reward: bool = flag(False)
    dual_clip: float = above_one(0.0)

    def parts(self) -> Parts:
        return Parts(
            advantage=less_kl(self.advantage, self.beta if self.kl_in_reward else 0.0),
            ratio="token",
            surrogate=clip(self.clip, self.clip, self.dual_clip),
            kl=KL() if self.kl_in_reward else KL(self.beta, self.kl_correction),
            weights=Mean(self.over),
        )


@dataclass(frozen=True)
class ImportanceWeighted(WithKL):
    r"""REINFORCE with exact importance weights, for rollouts of an older policy.

    .. math:: L = -\mathrm{mean}\,\frac{\pi(o)}{\pi_{old}(o)}\, A, \qquad
              \frac{\partial L}{\partial \log\pi} = -r A

    Shapes: one ratio per candidate, the product over its tokens, and one advantage per candidate [B, K].

    Edge cases: the log-ratio is clamped to ±20; beyond that the gradient is 0.

    Source: the off-policy study of the TPO talk; importance sampling as in Precup et al. 2000.

    Deviates: the group mean is the baseline by default; `advantage="score"` has none.
    """

    traits: ClassVar[Traits] = Traits("ratio", group=False, kl=True)

    advantage: str = choice(
        "centred", "centred", "z", "leave_one_out", "over_mean", "score", "given"
    )

    def parts(self) -> Parts:
        return Parts(
            advantage=PER_CANDIDATE[self.advantage],
            ratio="sequence",
            surrogate=IMPORTANCE,
            kl=KL(self.beta, self.kl_correction),
            weights=Mean("candidate"),
        )


@dataclass(frozen=True)
class TRPOPenalty(WithKL):
    r"""TRPO's trust region as a penalty: the surrogate minus a KL from the old policy.

    .. math:: L = \mathrm{mean}[-r A + \lambda\,\mathrm{KL}(\pi_{old}\|\pi)], \qquad
              \mathrm{KL}(\pi_{old}\|\pi) \approx r - 1 - \log r

    Shapes: per token [B, K, T], summed over tokens, averaged over candidates. λ is `kl_weight`.

    Edge cases: the estimate of the KL is never negative and its slope is r - 1.

    Source: Schulman et al., arXiv 1502.05477; the penalty form of arXiv 1707.06347, section 4.

    Deviates: a fixed penalty in place of the constraint; the KL is estimated on the sampled tokens.
    """

    traits: ClassVar[Traits] = Traits("ratio", group=False, tokens=True, kl=True)

    kl_weight: float = nonnegative(1.0)
    advantage: str = choice("position", *ADVANTAGES)

    def parts(self) -> Parts:
        return Parts(
            advantage=ADVANTAGES[self.advantage],
            ratio="token",
            surrogate=Surrogate(self._slope, self._penalised),
            kl=KL(self.beta, self.kl_correction),
            weights=Mean("candidate"),
        )

    def _penalised(self, xp: Namespace, x: Array, advantages: Array) -> Array:
        r = xp.exp(x)
        return -r * advantages + self.kl_weight * (r - 1 - x)

    def _slope(self, xp: Namespace, x: Array, advantages: Array) -> Array:
        r = xp.exp(x)
        return -r * advantages + self.kl_weight * (r - 1)


@dataclass(frozen=True)
class MDPO(WithKL):
    r"""Mirror descent: the surrogate minus a KL in the other direction, over several steps.

    .. math:: L = -\mathbb{E}_{\pi}[A] + \frac1t \mathrm{KL}(\pi\|\pi_{old}) \approx
              \mathrm{mean}[-r A + \frac1t (r\log r - r + 1)]

    Shapes: per token [B, K, T], summed over tokens, averaged over candidates. t is `step`.

    Edge cases: at r = 1 the slope is -A, so the first step is the surrogate's.

    Source: Tomar et al., arXiv 2005.09814.

    Deviates: t is fixed; the paper anneals it from 1 towards 0. The KL estimator is r log r - r + 1. Like
    r log r it is unbiased; it is never negative, and its slope at r = 1 is 0. The slope of r log r there is 1,
    which pushes every sampled token down by 1/t. That averages out over many samples, but not in a small group.
    """

    traits: ClassVar[Traits] = Traits("ratio", group=False, tokens=True, kl=True)

    step: float = positive(1.0)
    advantage: str = choice("position", *ADVANTAGES)

    def parts(self) -> Parts:
        return Parts(
            advantage=ADVANTAGES[self.advantage],
            ratio="token",
            surrogate=Surrogate(self._slope, self._penalised),
            kl=KL(self.beta, self.kl_correction),
            weights=Mean("candidate"),
        )

    def _penalised(self, xp: Namespace, x: Array, advantages: Array) -> Array:
        r = xp.exp(x)
        return (r * x - r + 1) / self.step - r * advantages

    def _slope(self, xp: Namespace, x: Array, advantages: Array) -> Array:
        return xp.exp(x) * (x / self.step - advantages)

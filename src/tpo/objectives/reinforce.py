"""REINFORCE with several baselines (RLOO, ReMax, A2C): an advantage times log pi, no ratio."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import ClassVar

from tpo.objectives.advantages import ADVANTAGES, critic
from tpo.objectives.aggregation import TOKEN_WEIGHTS
from tpo.objectives.base import Traits, choice, fraction, nonnegative
from tpo.objectives.kl_in_reward import less_kl
from tpo.objectives.parts import LIKELIHOOD, Composed, Mean, Parts


@dataclass(frozen=True)
class Reinforce(Composed):
    r"""Raise the log-prob of what scored above a baseline.

    .. math:: L = -\mathrm{mean}[\mathrm{sg}(R - b)\, \log \pi]

    Shapes: token rewards are `token_scores` [B, K, T], or the candidate's score on each token; the loss is
    summed over tokens and averaged over candidates. `advantage` names R - b: `position` (b is the batch
    mean at that position: the TPO paper's transformer studies), `given` (`groups.baseline`, such as Σ pi²
    for MNIST), `reward` (b = 0), or any advantage per candidate (`z`, `centred`, `leave_one_out`, ...).

    Edge cases: with one candidate in the batch and a `position` baseline the advantage is 0.

    Source: Williams 1992; baselines as in arXiv 2604.06159.

    Deviates: the position baseline includes the sample itself.
    """

    traits: ClassVar[Traits] = Traits("policy gradient", group=False, epochs=False, tokens=True)

    advantage: str = choice("position", *ADVANTAGES)
    over: str = choice("candidate", *TOKEN_WEIGHTS)

    def parts(self) -> Parts:
        return Parts(
            advantage=ADVANTAGES[self.advantage], surrogate=LIKELIHOOD, weights=Mean(self.over)
        )


@dataclass(frozen=True)
class RLOO(Composed):
    r"""REINFORCE with the mean of the other candidates as baseline.

    .. math:: A_i = R_i - \frac{1}{K-1}\sum_{j \ne i} R_j = \frac{K}{K-1}(R_i - \bar R), \qquad
              L = -\frac{1}{BK}\sum A_i \sum_t \log \pi_{i,t}

    Shapes: scores [B, K], K >= 2.

    Edge cases: a group with a single valid candidate has A = 0. K = 1 raises an error.

    Source: Ahmadian et al., arXiv 2402.14740; Kool et al. 2019.

    Deviates: no KL by default. `beta` is the strength of the KL inside the reward, as in the paper:
    :math:`R_i - \beta\sum_t \log(\pi_{old}/\pi_{ref})`.
    """

    traits: ClassVar[Traits] = Traits("policy gradient", epochs=False, kl=True)

    beta: float = nonnegative(0.0)

    def parts(self) -> Parts:
        return Parts(
            advantage=less_kl("leave_one_out", self.beta),
            surrogate=LIKELIHOOD,
            weights=Mean("candidate"),
        )


@dataclass(frozen=True)
class ReMax(Composed):
    r"""REINFORCE with the greedy decode's score as baseline.

    .. math:: A_i = R_i - R(\mathrm{greedy}), \qquad L = -\frac{1}{BK}\sum A_i \sum_t \log \pi_{i,t}

    Shapes: `groups.baseline` [B] holds the greedy score of each context. Works with K = 1. The lab
    (`Rollout(baseline="greedy")`) and the trainer on TRL sample it: one more completion per prompt.

    Edge cases: the baseline is the same for the whole group, so a softmax over the group cancels it.

    Source: Li et al., arXiv 2310.10505.

    Deviates: no KL by default. `beta` is the strength of the KL inside the reward, summed over the candidate's
    tokens; the baseline has none.
    """

    traits: ClassVar[Traits] = Traits("policy gradient", group=False, epochs=False, kl=True)
    needs: ClassVar[tuple[str, ...]] = ("baseline",)

    beta: float = nonnegative(0.0)

    def parts(self) -> Parts:
        return Parts(
            advantage=less_kl("given", self.beta), surrogate=LIKELIHOOD, weights=Mean("candidate")
        )


@dataclass(frozen=True)
class A2C(Composed):
    r"""Actor of the advantage actor-critic, with generalised advantage estimation.

    .. math:: L = -\mathrm{mean}[\mathrm{sg}(\hat A_t)\log\pi_t], \qquad
              \hat A_t = \sum_l (\gamma\lambda)^l (r_{t+l} + \gamma V_{t+l+1} - V_{t+l})

    Shapes: `groups.values` [B, K, T]; rewards are `token_scores`, or the score on the last token.
    λ = 1 is the Monte Carlo return minus V, λ = 0 one-step temporal difference.

    Edge cases: padding is expected after the last token.

    Source: Mnih et al., arXiv 1602.01783; Schulman et al., arXiv 1506.02438.

    Deviates: the critic is the trainer's; the lab fits it to V plus Â with the same γ and λ, by a network of
    its own. There is no entropy bonus; γ = 1 by default.
    """

    traits: ClassVar[Traits] = Traits(
        "policy gradient", group=False, critic=True, epochs=False, tokens=True
    )
    needs: ClassVar[tuple[str, ...]] = ("values",)

    gamma: float = fraction(1.0)
    lam: float = fraction(1.0)

    def parts(self) -> Parts:
        advantage = partial(critic, gamma=self.gamma, lam=self.lam)
        return Parts(advantage=advantage, surrogate=LIKELIHOOD, weights=Mean("candidate"))

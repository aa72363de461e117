"""REINFORCE with several baselines (RLOO, ReMax, A2C): an advantage times log pi, no ratio."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from tpo.groups import Groups
from tpo.objectives.advantages import ADVANTAGES, advantage, outcome_rewards
from tpo.objectives.aggregation import TOKEN_WEIGHTS, token_weights
from tpo.objectives.base import Traits, choice, fraction
from tpo.objectives.returns import gae
from tpo.objectives.weighted import WeightedObjective, prepare_policy


@dataclass(frozen=True)
class Reinforce(WeightedObjective):
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

    traits: ClassVar[Traits] = Traits("policy gradient", group=False, epochs=False)

    advantage: str = choice("position", *ADVANTAGES)
    over: str = choice("candidate", *TOKEN_WEIGHTS)

    def _prepare(self, groups: Groups) -> Any:
        return prepare_policy(
            groups, advantage(groups, self.advantage), token_weights(groups, self.over)
        )


@dataclass(frozen=True)
class RLOO(WeightedObjective):
    r"""REINFORCE with the mean of the other candidates as baseline.

    .. math:: A_i = R_i - \frac{1}{K-1}\sum_{j \ne i} R_j = \frac{K}{K-1}(R_i - \bar R), \qquad
              L = -\frac{1}{BK}\sum A_i \sum_t \log \pi_{i,t}

    Shapes: scores [B, K], K >= 2.

    Edge cases: a group with a single valid candidate has A = 0. K = 1 raises an error.

    Source: Ahmadian et al., arXiv 2402.14740; Kool et al. 2019.

    Deviates: no KL inside the reward; add it to the scores if you want it.
    """

    traits: ClassVar[Traits] = Traits("policy gradient", epochs=False)

    def _prepare(self, groups: Groups) -> Any:
        return prepare_policy(
            groups, advantage(groups, "leave_one_out"), token_weights(groups, "candidate")
        )


@dataclass(frozen=True)
class ReMax(WeightedObjective):
    r"""REINFORCE with the greedy decode's score as baseline.

    .. math:: A_i = R_i - R(\mathrm{greedy}), \qquad L = -\frac{1}{BK}\sum A_i \sum_t \log \pi_{i,t}

    Shapes: `groups.baseline` [B] holds the greedy score of each context. Works with K = 1.

    Edge cases: the baseline is the same for the whole group, so a softmax over the group cancels it.

    Source: Li et al., arXiv 2310.10505.

    Deviates: no KL inside the reward.
    """

    traits: ClassVar[Traits] = Traits("policy gradient", group=False, epochs=False)
    needs: ClassVar[tuple[str, ...]] = ("baseline",)

    def _prepare(self, groups: Groups) -> Any:
        return prepare_policy(
            groups, advantage(groups, "given"), token_weights(groups, "candidate")
        )


@dataclass(frozen=True)
class A2C(WeightedObjective):
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

    traits: ClassVar[Traits] = Traits("policy gradient", group=False, critic=True, epochs=False)
    needs: ClassVar[tuple[str, ...]] = ("values",)

    gamma: float = fraction(1.0)
    lam: float = fraction(1.0)

    def _prepare(self, groups: Groups) -> Any:
        advantages = gae(outcome_rewards(groups), groups.values, self.gamma, self.lam, groups.mask)
        return prepare_policy(groups, advantages, token_weights(groups, "candidate"))

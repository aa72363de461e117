"""Trust regions around the policy that sampled, outside of which gradients are dropped: DPPO, OPSM."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

from tpo.arrays import Array, Namespace
from tpo.groups import Groups, masked
from tpo.objectives.advantages import advantage
from tpo.objectives.aggregation import token_weights
from tpo.objectives.base import Traits, choice, inside_unit, positive
from tpo.objectives.ratio import ClippedObjective, RatioObjective, log_ratio, prepare_ratio
from tpo.objectives.weighted import PreparedPolicy, prepare_policy

EDGE = 1e-6
"""Probabilities in a binary KL are kept this far from 0 and 1."""


def from_behaviour(groups: Groups) -> Groups:
    """The groups with `log_probs_rollout`, the policy that sampled, as their snapshot, where they have it."""
    if groups.log_probs_rollout is None:
        return groups
    return replace(groups, log_probs_old=groups.log_probs_rollout, log_probs_ref=groups.reference)


class TrustMask(RatioObjective):
    """A ratio objective without the advantages of tokens or sequences outside a trust region.

    The KL penalty, if there is one, keeps them.
    """

    def trusted(self, xp: Namespace, log_probs: Array, prepared: PreparedPolicy) -> Array:
        """[B, K, T] or [B, K, 1] bool: what keeps its gradient."""
        raise NotImplementedError

    def _inside(self, xp: Namespace, log_probs: Array, prepared: PreparedPolicy) -> PreparedPolicy:
        kept = self.trusted(xp, masked(xp, log_probs, prepared.tokens), prepared)
        return prepared._replace(advantages=xp.where(kept, prepared.advantages, 0.0))

    def _loss(self, xp: Namespace, log_probs: Array, prepared: Any) -> Array:
        return super()._loss(xp, log_probs, self._inside(xp, log_probs, prepared))

    def _coefficients(self, xp: Namespace, log_probs: Array, prepared: Any) -> Array:
        return super()._coefficients(xp, log_probs, self._inside(xp, log_probs, prepared))


@dataclass(frozen=True)
class DPPO(TrustMask):
    r"""Drop tokens that move on in the direction of their advantage, once their probability has moved enough.

    .. math:: L = -\frac{1}{BK}\sum_i\sum_t m_{it}\, r_{it} A_i, \qquad
              m_{it} = 0 \text{ if } A_i(\pi_{it} - \mu_{it}) > 0 \text{ and } D(\mu_{it}, \pi_{it}) > \delta

    Shapes: A = R - mean within the group, [B, K]; r = π/μ. D is :math:`|\pi - \mu|` (`tv`) or the KL of the
    two-way choice between this token and all others (`kl`). μ is `log_probs_rollout`, or the snapshot without
    it.

    Edge cases: at π = μ every token is kept. A rare token may change its ratio by much: what counts is
    probability.

    Source: Qi et al., arXiv 2602.04879, eq. 13 and 14. Its runs have δ = .15 for TV and .05 for KL.

    Deviates: advantage and mean are Dr. GRPO's, as in the paper's runs, without its division by a fixed length.
    """

    traits: ClassVar[Traits] = Traits("ratio")

    divergence: str = choice("tv", "tv", "kl")
    delta: float = positive(0.15)

    def _prepare(self, groups: Groups) -> Any:
        groups = from_behaviour(groups)
        return prepare_policy(
            groups, advantage(groups, "centred"), token_weights(groups, "candidate")
        )

    def trusted(self, xp: Namespace, log_probs: Array, prepared: PreparedPolicy) -> Array:
        now, then = xp.exp(log_probs), xp.exp(prepared.log_probs_old)
        onward = (now - then) * prepared.advantages > 0
        return ~(onward & (self._moved(xp, then, now) > self.delta))

    def _moved(self, xp: Namespace, then: Array, now: Array) -> Array:
        """[B, K, T] D(μ, π)"""
        if self.divergence == "tv":
            return xp.abs(now - then)
        then, now = xp.clip(then, EDGE, 1 - EDGE), xp.clip(now, EDGE, 1 - EDGE)
        return then * xp.log(then / now) + (1 - then) * xp.log((1 - then) / (1 - now))

    def surrogate(self, xp: Namespace, x: Array, advantages: Array) -> Array:
        return -xp.exp(x) * advantages

    def surrogate_slope(self, xp: Namespace, x: Array, advantages: Array) -> Array:
        return -xp.exp(x) * advantages


@dataclass(frozen=True)
class OPSM(TrustMask, ClippedObjective):
    r"""GRPO without the sequences that are worse than their group and far from the policy that sampled them.

    .. math:: L = -\frac1B\sum_b\frac1K\sum_i\frac{m_i}{|o_i|}\sum_t
              \min(r_{it} u_i, \mathrm{clip}(r_{it}, 1\pm\epsilon)u_i), \qquad
              m_i = 0 \text{ if } u_i < 0 \text{ and }
              \frac{1}{|o_i|}\sum_t\log\frac{\mu_{it}}{\pi_{it}} > \delta

    Shapes: u [B, K]; r = π/μ. μ is `log_probs_rollout`, or the snapshot without it.

    Edge cases: successes are never dropped, however stale they are.

    Source: off-policy sequence masking of DeepSeek-V3.2, arXiv 2512.02556; TRL's `off_policy_mask_threshold`.

    Deviates: the paper does not state δ; .5 nats per token is what TRL's documentation suggests.
    """

    traits: ClassVar[Traits] = Traits("ratio")

    clip: float = inside_unit(0.2)
    delta: float = positive(0.5)

    def _prepare(self, groups: Groups) -> Any:
        return prepare_ratio(from_behaviour(groups), "z", "token", "sequence")

    def clip_range(self) -> tuple[float, float]:
        return self.clip, self.clip

    def trusted(self, xp: Namespace, log_probs: Array, prepared: PreparedPolicy) -> Array:
        lag = -log_ratio(xp, log_probs, prepared.log_probs_old, prepared, "mean")
        return ~((prepared.advantages < 0) & (lag > self.delta))

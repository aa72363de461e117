"""Trust regions around the policy that sampled, outside of which gradients are dropped: DPPO, OPSM, M2PO."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from tpo.arrays import Array, Namespace
from tpo.objectives.advantages import centred, standardized
from tpo.objectives.base import Traits, choice, inside_unit, positive
from tpo.objectives.parts import KL, Mean, Parts, WithKL, clip, from_behaviour
from tpo.objectives.ratio import MEAN, TOKEN, PreparedPolicy
from tpo.objectives.selection import smallest_within
from tpo.objectives.surrogates import IMPORTANCE

EDGE = 1e-6
"""Probabilities in a binary KL are kept this far from 0 and 1."""


@dataclass(frozen=True)
class DPPO(WithKL):
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

    traits: ClassVar[Traits] = Traits("ratio", tokens=True, behaviour=True, kl=True)

    divergence: str = choice("tv", "tv", "kl")
    delta: float = positive(0.15)

    def parts(self) -> Parts:
        return Parts(
            snapshot=from_behaviour,
            advantage=centred,
            gate=self._near_or_returning,
            ratio="token",
            surrogate=IMPORTANCE,
            kl=KL(self.beta, self.kl_correction),
            weights=Mean("candidate"),
        )

    def _near_or_returning(
        self, xp: Namespace, log_probs: Array, prepared: PreparedPolicy
    ) -> Array:
        now, then = xp.exp(log_probs), xp.exp(prepared.log_probs_old)
        onward = (now - then) * prepared.advantages > 0
        return ~(onward & (self._moved(xp, then, now) > self.delta))

    def _moved(self, xp: Namespace, then: Array, now: Array) -> Array:
        """[B, K, T] D(μ, π)"""
        if self.divergence == "tv":
            return xp.abs(now - then)
        then, now = xp.clip(then, EDGE, 1 - EDGE), xp.clip(now, EDGE, 1 - EDGE)
        return then * xp.log(then / now) + (1 - then) * xp.log((1 - then) / (1 - now))


@dataclass(frozen=True)
class OPSM(WithKL):
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

    traits: ClassVar[Traits] = Traits("ratio", tokens=True, behaviour=True, kl=True)

    clip: float = inside_unit(0.2)
    delta: float = positive(0.5)

    def parts(self) -> Parts:
        return Parts(
            snapshot=from_behaviour,
            advantage=standardized,
            gate=self._good_or_near,
            ratio="token",
            surrogate=clip(self.clip, self.clip),
            kl=KL(self.beta, self.kl_correction),
            weights=Mean("sequence"),
        )

    def _good_or_near(self, xp: Namespace, log_probs: Array, prepared: PreparedPolicy) -> Array:
        lag = -MEAN.log(xp, log_probs, prepared.log_probs_old, prepared)
        return ~((prepared.advantages < 0) & (lag > self.delta))


@dataclass(frozen=True)
class M2PO(WithKL):
    r"""Drop the tokens that are farthest from the policy that sampled, until the rest is near it on average.

    .. math:: L = -\frac{1}{\sum|o|}\sum_i\sum_t M_{it}\, r_{it} u_i, \qquad
              \frac{\sum M_{it}\,(\log r_{it})^2}{\sum M_{it}} \le \tau

    Shapes: u [B, K]; r = π/μ. Of all tokens of the batch those with the largest :math:`|\log r|` have M = 0, as
    few as the bound allows. μ is `log_probs_rollout`, or the snapshot without it.

    Edge cases: at π = μ every token is kept. Equal log-ratios are kept or dropped together. If a single token
    is above the bound and nothing is below, nothing is left.

    Source: second-moment trust policy optimization, arXiv 2510.01161.

    Deviates: the mask counts every token of the batch, whatever the sign of its advantage, as in AReaL.
    """

    traits: ClassVar[Traits] = Traits(
        "ratio", tokens=True, whole_groups=True, whole_batch=True, behaviour=True, kl=True
    )

    tau: float = positive(0.04)

    def parts(self) -> Parts:
        return Parts(
            snapshot=from_behaviour,
            advantage=standardized,
            gate=self._near,
            ratio="token",
            surrogate=IMPORTANCE,
            kl=KL(self.beta, self.kl_correction),
            weights=Mean("token"),
        )

    def _near(self, xp: Namespace, log_probs: Array, prepared: PreparedPolicy) -> Array:
        x = TOKEN.log(xp, log_probs, prepared.log_probs_old, prepared)
        return smallest_within(xp, x * x, self.tau, prepared.tokens)

"""Losses made for preference data: pairs of a better and a worse candidate (DPO, IPO), or single ones (KTO)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

from tpo.arrays import Array, Namespace
from tpo.groups import Groups, masked, rounding, shifted
from tpo.objectives.aggregation import candidate_weights
from tpo.objectives.base import Objective, Traits, nonnegative, positive
from tpo.objectives.parts import prepare_policy
from tpo.objectives.ratio import SEQUENCE, PreparedPolicy
from tpo.objectives.target_matching import count_contexts


class PreparedPairs(NamedTuple):
    """What is fixed: the reference, and the weight of every pair."""

    log_probs_old: Array
    reference: Array
    """[B, K, T]"""
    tokens: Array | None
    pairs: Array
    """[B, K, K] 1/(B·n) where the first scores above the second, n pairs in the group; 0 elsewhere"""


class Preference(Objective):
    """A term of the margin x_i - x_j for each pair of a group in which i scores above j; x = log pi/pi_ref."""

    traits: ClassVar[Traits] = Traits("preference", reference=True, whole_groups=True)
    prepared_type: ClassVar[type] = PreparedPairs

    def _prepare(self, groups: Groups) -> Any:
        xp = groups.xp
        scores = shifted(xp, groups.total, groups.counted)
        lead = scores[..., :, None] - scores[..., None, :]
        pairs = xp.cast(lead > rounding(xp, scores)[..., None], scores)
        if groups.valid is not None:
            valid = xp.cast(groups.valid, scores)
            pairs = pairs * valid[..., :, None] * valid[..., None, :]
        n = xp.clip(xp.sum(pairs, axis=(-2, -1), keepdims=True), 1.0, None)
        pairs = pairs / n / count_contexts(scores)
        return PreparedPairs(groups.log_probs_old, groups.reference, groups.mask, pairs)

    def _margins(self, xp: Namespace, log_probs: Array, prepared: PreparedPairs) -> Array:
        """[B, K, K] x_i - x_j"""
        x = xp.sum(masked(xp, log_probs - prepared.reference, prepared.tokens), axis=-1)
        return x[..., :, None] - x[..., None, :]

    def _loss(self, xp: Namespace, log_probs: Array, prepared: Any) -> Array:
        return xp.sum(prepared.pairs * self.term(xp, self._margins(xp, log_probs, prepared)))

    def _coefficients(self, xp: Namespace, log_probs: Array, prepared: Any) -> Array:
        slope = prepared.pairs * self.slope(xp, self._margins(xp, log_probs, prepared))
        c = xp.sum(slope, axis=-1) - xp.sum(slope, axis=-2)
        return masked(xp, c[..., None] + xp.zeros_like(log_probs), prepared.tokens)

    def term(self, xp: Namespace, margin: Array) -> Array:
        """In subclasses: the loss of a pair."""
        raise NotImplementedError

    def slope(self, xp: Namespace, margin: Array) -> Array:
        """In subclasses: its derivative by the margin."""
        raise NotImplementedError


def log_sigmoid(xp: Namespace, x: Array) -> Array:
    """log σ(x), the log-probability of the first of two with logits x and 0."""
    logits = xp.concatenate((x[..., None], xp.zeros_like(x)[..., None]), axis=-1)
    return xp.log_softmax(logits)[..., 0]


@dataclass(frozen=True)
class DPO(Preference):
    r"""Classify which of two candidates is the better one by the difference of their log-ratios.

    .. math:: L = -\frac1B\sum_b \mathrm{mean}_{R_i > R_j} \log\sigma(\beta(x_i - x_j)), \qquad
              x_i = \log\frac{\pi(o_i)}{\pi_{ref}(o_i)}

    Shapes: x [B, K]. A preference pair is a group with K = 2 and scores (1, 0). The reference is
    `log_probs_ref`, or the snapshot without it.

    Edge cases: a group of equal scores has no pair and a loss of 0. The gradient never vanishes: every pair is
    driven apart without end, where TPO's target has the odds :math:`e^{(u_i - u_j)/\eta}`.

    Source: Rafailov et al., arXiv 2305.18290.

    Deviates: all pairs of a group with K > 2.
    """

    beta: float = positive(0.1)

    def term(self, xp: Namespace, margin: Array) -> Array:
        return -log_sigmoid(xp, self.beta * margin)

    def slope(self, xp: Namespace, margin: Array) -> Array:
        return -self.beta * xp.sigmoid(-self.beta * margin)


@dataclass(frozen=True)
class IPO(Preference):
    r"""Drive the difference of two log-ratios to a set value, so that it has an end.

    .. math:: L = \frac1B\sum_b \mathrm{mean}_{R_i > R_j} \Big(x_i - x_j - \frac{1}{2\tau}\Big)^2, \qquad
              x_i = \log\frac{\pi(o_i)}{\pi_{ref}(o_i)}

    Shapes: as in `dpo`.

    Edge cases: like TPO it has a target: odds of :math:`e^{1/(2\tau)}` relative to the reference.

    Source: Azar et al., arXiv 2310.12036. prime-rl's `ipo` is something else, a trust mask.

    Deviates: all pairs of a group with K > 2; log-ratios are sums over tokens, where TRL takes their means.
    """

    tau: float = positive(0.1)

    def term(self, xp: Namespace, margin: Array) -> Array:
        return (margin - 0.5 / self.tau) * (margin - 0.5 / self.tau)

    def slope(self, xp: Namespace, margin: Array) -> Array:
        return 2 * (margin - 0.5 / self.tau)


@dataclass(frozen=True)
class KTO(Objective):
    r"""Judge each candidate by itself, as desirable or not, against a reference point.

    .. math:: L = \frac{1}{BK}\sum_i \lambda_i\big[1 - \sigma(\pm\beta(x_i - z))\big], \qquad
              x_i = \log\frac{\pi(o_i)}{\pi_{ref}(o_i)}, \qquad z = \mathrm{sg}(\max(0, \bar x))

    Shapes: x [B, K]. A candidate is desirable (+) if its score is above `correct_above`, else undesirable (-).
    λ is `weight_desirable` or `weight_undesirable`. The reference is `log_probs_ref`, or the snapshot
    without it.

    Edge cases: works with K = 1 and without pairs. Far candidates have no gradient, in either direction.

    Source: Ethayarajh et al., arXiv 2402.01306.

    Deviates: z estimates KL(π‖π_ref) from the batch's own candidates; the paper takes answers to other prompts.
    """

    traits: ClassVar[Traits] = Traits(
        "preference", group=False, reference=True, whole_groups=True, whole_batch=True
    )

    beta: float = positive(0.1)
    correct_above: float = nonnegative(0.0)
    weight_desirable: float = nonnegative(1.0)
    weight_undesirable: float = nonnegative(1.0)
    prepared_type: ClassVar[type] = PreparedPolicy

    def _prepare(self, groups: Groups) -> Any:
        xp = groups.xp
        desirable = groups.total > self.correct_above
        signed = xp.where(
            desirable,
            self.weight_desirable * xp.ones_like(groups.total),
            -self.weight_undesirable * xp.ones_like(groups.total),
        )
        return prepare_policy(groups, signed, candidate_weights(groups, "candidate"))

    def _values(
        self, xp: Namespace, log_probs: Array, prepared: PreparedPolicy
    ) -> tuple[Array, Array]:
        """[B, K, 1] the sign, and 1 - σ(±β(x - z))"""
        log_probs = masked(xp, log_probs, prepared.tokens)
        x = SEQUENCE.log(xp, log_probs, prepared.reference, prepared)
        z = xp.clip(xp.sum(prepared.weights * xp.stop_gradient(x)), 0.0, None)
        sign = 2 * xp.cast(prepared.advantages > 0, x) - 1
        return sign, xp.sigmoid(-sign * self.beta * (x - z))

    def _loss(self, xp: Namespace, log_probs: Array, prepared: Any) -> Array:
        sign, loss = self._values(xp, log_probs, prepared)
        return xp.sum(prepared.weights * sign * prepared.advantages * loss)

    def _coefficients(self, xp: Namespace, log_probs: Array, prepared: Any) -> Array:
        _, loss = self._values(xp, log_probs, prepared)
        c = -self.beta * prepared.weights * prepared.advantages * loss * (1 - loss)
        return SEQUENCE.to_tokens(xp, c, log_probs, prepared)

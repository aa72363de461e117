"""Weighted likelihood with weights exp(A/eta), eta from the dual of a KL bound: MPO, REPS, V-MPO."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from tpo.arrays import Array, Namespace
from tpo.groups import LOW, Groups, masked
from tpo.objectives.advantages import centred
from tpo.objectives.base import Traits, positive
from tpo.objectives.kl_budget import eta_at
from tpo.objectives.parts import LIKELIHOOD, Composed, Mean, Parts
from tpo.objectives.target_matching import count_contexts


def dual_temperature(xp: Namespace, advantages: Array, epsilon: float, mask: Array | None) -> Array:
    r"""The eta at which the weights exp(A/eta) have KL = epsilon from uniform.

    .. math:: \eta^* = \arg\min_\eta\ \eta\epsilon + \eta\,\overline{\log \mathrm{mean}_i e^{A_i/\eta}}

    advantages: [N, M], softmax over M, KL averaged over rows with an unmasked entry; a scalar of shape [1, 1].
    The dual's derivative is epsilon - KL, and KL falls with eta: bisection on log eta finds its root. If even
    the sharpest weights are within epsilon, eta is the lower end of the range.
    """

    zero = xp.zeros_like(advantages[:1, :1])
    return eta_at(xp, lambda eta: mean_kl(xp, advantages / eta, mask), epsilon, zero)


def mean_kl(xp: Namespace, logits: Array, mask: Array | None) -> Array:
    """KL(softmax(logits) ‖ uniform), averaged over the rows with an unmasked entry."""
    log_w = xp.log_softmax(masked(xp, logits, mask, LOW))
    if mask is None:
        return xp.sum(xp.exp(log_w) * log_w) / count_contexts(logits) + math.log(logits.shape[-1])
    n = xp.sum(xp.cast(mask, logits), axis=-1)
    entropy = -xp.sum(masked(xp, xp.exp(log_w) * log_w, mask), axis=-1)
    rows = xp.cast(n > 0, logits)
    gap = rows * (xp.log(xp.clip(n, 1.0, None)) - entropy)
    return xp.sum(gap) / xp.clip(xp.sum(rows), 1.0, None)


def weights_of(xp: Namespace, advantages: Array, epsilon: float, mask: Array | None) -> Array:
    """[N, M] softmax(A/eta) with eta from the dual; 0 on masked entries."""
    if 0 in advantages.shape:
        return advantages
    logits = advantages / dual_temperature(xp, advantages, epsilon, mask)
    return masked(xp, xp.exp(xp.log_softmax(masked(xp, logits, mask, LOW))), mask)


@dataclass(frozen=True)
class MPO(Composed):
    r"""Maximum a posteriori policy optimisation: softmax weights within each group, one shared eta.

    .. math:: w_i = \frac{e^{A_i/\eta}}{\sum_j e^{A_j/\eta}}, \quad
              \eta = \arg\min_\eta \eta\epsilon + \eta\,\overline{\log\mathrm{mean}\, e^{A/\eta}}, \quad
              L = -\frac{1}{B}\sum_b\sum_i w_i\, \ell_i

    Shapes: A = R - mean within the group, w [B, K], :math:`\ell` the sum of token log-probs. Candidates
    are samples of pi_old, so the weights carry no p_old.

    Edge cases: equal scores give uniform weights, which still raise the likelihood of the samples.

    Source: Abdolmaleki et al., arXiv 1806.06920.

    Deviates: scores replace Q. Eta is solved for in every batch instead of by gradient steps. The trust
    region of the M-step is left to the trainer (no KL penalty).
    """

    traits: ClassVar[Traits] = Traits("target")

    epsilon: float = positive(0.1)

    def parts(self) -> Parts:
        return Parts(advantage=self._weight, surrogate=LIKELIHOOD, weights=Mean("group"))

    def _weight(self, groups: Groups) -> Array:
        return weights_of(groups.xp, centred(groups), self.epsilon, groups.valid)


@dataclass(frozen=True)
class REPS(Composed):
    r"""Relative entropy policy search: one softmax over all candidates of the batch.

    .. math:: w_n = \frac{e^{A_n/\eta}}{\sum_m e^{A_m/\eta}}, \quad
              \eta = \arg\min_\eta \eta\epsilon + \eta\log\mathrm{mean}_n\, e^{A_n/\eta}, \quad
              L = -\sum_n w_n\, \ell_n

    Shapes: A = R - mean within the group; w [B, K] sums to 1 over the whole batch.

    Edge cases: equal scores give uniform weights.

    Source: Peters, Mülling, Altün 2010.

    Deviates: the group mean replaces the learned value function.
    """

    traits: ClassVar[Traits] = Traits("target")

    epsilon: float = positive(0.1)

    def parts(self) -> Parts:
        return Parts(advantage=self._weight, surrogate=LIKELIHOOD, weights=Mean("sum"))

    def _weight(self, groups: Groups) -> Array:
        xp, advantages = groups.xp, centred(groups)
        mask = self.kept(xp, advantages, groups.valid)
        flat = None if mask is None else mask.reshape(1, -1)
        w = weights_of(xp, advantages.reshape(1, -1), self.epsilon, flat)
        return w.reshape(advantages.shape)

    def kept(self, xp: Namespace, advantages: Array, mask: Array | None) -> Array | None:
        """[B, K] bool: which candidates get a weight; None for all."""
        return mask


@dataclass(frozen=True)
class VMPO(REPS):
    r"""On-policy MPO: REPS on the better half of the batch.

    .. math:: \psi_n = \frac{e^{A_n/\eta}}{\sum_{m \in top} e^{A_m/\eta}}\ (n \in top), \quad
              \eta = \arg\min_\eta \eta\epsilon + \eta\log\mathrm{mean}_{top}\, e^{A/\eta}, \quad
              L = -\sum_{n \in top} \psi_n\, \ell_n

    Shapes: A = R - mean within the group; the top half is taken over all candidates of the batch.

    Edge cases: equal advantages at the boundary are all kept, so that the order of candidates does not matter.
    With an odd count the middle one is kept.

    Source: Song et al., arXiv 1909.12238.

    Deviates: the group mean replaces the value function; eta is solved for; no KL bound on the new policy.
    """

    def kept(self, xp: Namespace, advantages: Array, mask: Array | None) -> Array | None:
        if 0 in advantages.shape:
            return mask
        ranked = xp.sort(masked(xp, advantages, mask, LOW).reshape(-1))
        n = float(ranked.shape[0]) if mask is None else xp.sum(xp.cast(mask, advantages))
        from_top = ranked.shape[0] - xp.cumsum(xp.ones_like(ranked), axis=0)
        threshold = xp.amin(xp.where(2 * from_top < n, ranked, -LOW), axis=0)
        top = advantages >= threshold
        return top if mask is None else top & mask

"""Temperatures from a KL budget, by bisection: of a target, per group, and of MPO's weights, per batch."""

from __future__ import annotations

import math
from collections.abc import Callable

from tpo.arrays import Array, Namespace
from tpo.groups import LOW, masked
from tpo.objectives.target_matching import tilted

HALVINGS = 50
"""Bisection steps for log eta, over 28 nats: finer than float32 resolves."""


def eta_at(
    xp: Namespace, kl_of: Callable[[Array], Array], budget: float | Array, zero: Array
) -> Array:
    """The eta at which `kl_of(eta)`, which falls with eta, is the budget; `zero` holds zeros in its shape.

    If the KL is within the budget at every eta of 1e-6 to 1e6, it is the lower end.
    """

    def halve(ends: tuple[Array, Array]) -> tuple[Array, Array]:
        low, high = ends
        middle = (low + high) / 2
        sharp = kl_of(xp.exp(middle)) > budget
        return xp.where(sharp, middle, low), xp.where(sharp, high, middle)

    low, high = xp.repeat(HALVINGS, halve, (zero + math.log(1e-6), zero + math.log(1e6)))
    return xp.exp((low + high) / 2)


def within_budget(
    xp: Namespace, log_scores: Array, u: Array, budget: float, mask: Array | None
) -> Array:
    r"""[B, K] u/eta with the eta of each group at which KL(q‖p_old) is the budget.

    .. math:: q_i \propto p^{old}_i\, e^{u_i/\eta}, \qquad \mathrm{KL}(q\,\|\,p^{old}) = \epsilon

    log_scores, u: [B, K]. The KL falls with eta. If even all of the mass on the best candidates is within the
    budget, q has it there. A group of equal scores keeps q = p_old.
    """
    if 0 in u.shape:
        return u
    log_p = xp.log_softmax(masked(xp, log_scores, mask, LOW))

    def kl_of(eta: Array) -> Array:
        log_q = xp.log_softmax(tilted(xp, log_scores, u / eta, 1.0, mask))
        gap = masked(xp, xp.exp(log_q) * (log_q - log_p), mask)
        return xp.sum(gap, axis=-1, keepdims=True)

    return u / eta_at(xp, kl_of, budget, xp.zeros_like(u[..., :1]))

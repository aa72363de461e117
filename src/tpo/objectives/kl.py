"""Estimators of the KL from samples of pi, d = log pi - log pi_ref, and the KL as a part of an objective."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from tpo import checks
from tpo.arrays import Array, Namespace
from tpo.groups import masked
from tpo.objectives.ratio import TOKEN, PreparedPolicy, Ratio

LIMIT = 20.0
"""Log-ratios are clamped to ±LIMIT before exp, as in the TPO paper's GRPO. A clamped one has no gradient."""


def k1(log_probs: Array, log_probs_ref: Array) -> Array:
    r"""k1 = d: unbiased, high variance. As a loss its expected gradient is 0.

    .. math:: k_1 = d = \log\pi - \log\pi_{ref}

    Elementwise, any shape. Source: J. Schulman, "Approximating KL divergence", 2020.
    """
    checks.alike(log_probs=log_probs, log_probs_ref=log_probs_ref)
    return log_probs - log_probs_ref


def k2(log_probs: Array, log_probs_ref: Array) -> Array:
    r"""k2 = d²/2: biased, low variance. As a loss its expected gradient is that of KL(pi‖ref).

    .. math:: k_2 = d^2/2

    Elementwise, any shape. Source: J. Schulman, "Approximating KL divergence", 2020.
    """
    return k2_of(k1(log_probs, log_probs_ref))


def k3(log_probs: Array, log_probs_ref: Array) -> Array:
    r"""k3 = e^-d + d - 1: unbiased, low variance, never negative. As a loss its gradient is that of KL(ref‖pi).

    .. math:: k_3 = e^{-d} + d - 1

    Elementwise, any shape; d is clamped to ±20. Source: J. Schulman, "Approximating KL divergence", 2020.
    """
    xp = checks.alike(log_probs=log_probs, log_probs_ref=log_probs_ref)
    return k3_of(xp, clamped(xp, log_probs - log_probs_ref))


def k2_of(d: Array) -> Array:
    """k2 of d."""
    return d * d / 2


def clamped(xp: Namespace, x: Array) -> Array:
    """The log-ratio x, clamped to ±LIMIT."""
    return xp.clip(x, -LIMIT, LIMIT)


def zero_if_clamped(xp: Namespace, x: Array, slope: Array) -> Array:
    """`slope` where |x| < LIMIT, else 0: the derivative through `clamped`."""
    return xp.where(xp.abs(x) < LIMIT, slope, 0.0)


def k3_of(xp: Namespace, d: Array) -> Array:
    """k3 of a clamped d."""
    return xp.exp(-d) + d - 1


def k3_slope(xp: Namespace, d: Array) -> Array:
    """dk3/dd = 1 - e^-d, of a clamped d."""
    return 1 - xp.exp(-d)


def corrected(xp: Namespace, x: Array, estimate: Array) -> Array:
    r"""r·k of an estimate k, with r = e^x = pi/pi_old: unbiased when pi_old sampled instead of pi.

    The gradient flows through r too: that of r·k3 is r·d, the gradient of KL(pi‖ref). x must be clamped.
    Source: DeepSeek-V3.2, arXiv 2512.02556; TRL's `use_bias_correction_kl`.
    """
    return xp.exp(x) * estimate


class Estimator(NamedTuple):
    """An estimate of the KL as a loss term: its value and its slope, of a clamped d."""

    value: Callable[[Namespace, Array], Array]
    slope: Callable[[Namespace, Array], Array]
    through_ratio: bool
    """whether r·k needs a gradient through r: that of k2 alone is already that of KL(pi‖ref)"""


K2 = Estimator(lambda xp, d: k2_of(d), lambda xp, d: d, through_ratio=False)
K3 = Estimator(k3_of, k3_slope, through_ratio=True)


class KL(NamedTuple):
    """beta times an estimate of the KL to the reference, at the granularity of the objective's terms."""

    beta: float = 0.0
    corrected: bool = False
    """whether the estimate k becomes r·k, whose gradient is that of KL(pi‖ref) after updates too"""
    estimator: Estimator = K3
    per_token: bool = False
    """whether it is the mean over a sequence's tokens where ratios are per sequence"""

    def value(self, xp: Namespace, of: Ratio, log_probs: Array, prepared: PreparedPolicy) -> Array:
        """The estimate, shaped like the terms."""
        d = self._ratio(of).log(xp, log_probs, prepared.reference, prepared)
        estimate = self.estimator.value(xp, clamped(xp, d))
        if self.per_token and not of.per_token:
            estimate = masked(xp, estimate, prepared.tokens)
            estimate = xp.sum(estimate, axis=-1, keepdims=True) / prepared.lengths
        if not self.corrected:
            return estimate
        x = clamped(xp, of.log(xp, log_probs, prepared.log_probs_old, prepared))
        return corrected(xp, x if self.estimator.through_ratio else xp.stop_gradient(x), estimate)

    def slope(self, xp: Namespace, of: Ratio, log_probs: Array, prepared: PreparedPolicy) -> Array:
        """d estimate / dx; d and x change alike. Beyond LIMIT r is constant."""
        d = self._ratio(of).log(xp, log_probs, prepared.reference, prepared)
        slope = zero_if_clamped(xp, d, self.estimator.slope(xp, clamped(xp, d)))
        if not self.corrected:
            return slope
        x = of.log(xp, log_probs, prepared.log_probs_old, prepared)
        if self.estimator.through_ratio:
            estimate = self._replace(corrected=False).value(xp, of, log_probs, prepared)
            slope = zero_if_clamped(xp, x, estimate) + slope
        return xp.exp(clamped(xp, x)) * slope

    def _ratio(self, of: Ratio) -> Ratio:
        return TOKEN if self.per_token else of

"""Estimators of the KL divergence from samples of pi, per token; d = log pi - log pi_ref."""

from __future__ import annotations

from tpo import checks
from tpo.arrays import Array, Namespace

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


def corrected_slope(xp: Namespace, x: Array, estimate: Array, slope: Array) -> Array:
    """d(r·k)/dx = r·(k + dk/dd), since d and x change alike. Pass x unclamped: beyond LIMIT r is constant."""
    return xp.exp(clamped(xp, x)) * (zero_if_clamped(xp, x, estimate) + slope)

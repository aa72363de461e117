"""Estimators of the KL divergence from samples of pi; d = log pi - log pi_ref, token by token."""

from __future__ import annotations

from tpo import checks
from tpo.arrays import Array, Namespace

LIMIT = 20.0
"""Log-ratios are clamped to ±LIMIT before exp, as in the TPO paper's GRPO; their gradient is 0 beyond."""


def k1(log_probs: Array, log_probs_ref: Array) -> Array:
    r"""d: unbiased, of high variance; as a loss its expected gradient is 0.

    .. math:: k_1 = d = \log\pi - \log\pi_{ref}

    Elementwise, any shape. Source: J. Schulman, "Approximating KL divergence", 2020.
    """
    checks.alike(log_probs=log_probs, log_probs_ref=log_probs_ref)
    return log_probs - log_probs_ref


def k2(log_probs: Array, log_probs_ref: Array) -> Array:
    r"""d²/2: biased, of low variance; as a loss its expected gradient is that of KL(pi‖ref).

    .. math:: k_2 = d^2/2

    Elementwise, any shape. Source: J. Schulman, "Approximating KL divergence", 2020.
    """
    return half_square(k1(log_probs, log_probs_ref))


def k3(log_probs: Array, log_probs_ref: Array) -> Array:
    r"""e^-d + d - 1: unbiased, of low variance, never negative; as a loss its gradient is that of KL(ref‖pi).

    .. math:: k_3 = e^{-d} + d - 1

    Elementwise, any shape; d is clamped to ±20. Source: J. Schulman, "Approximating KL divergence", 2020.
    """
    xp = checks.alike(log_probs=log_probs, log_probs_ref=log_probs_ref)
    return bregman(xp, clamped(xp, log_probs - log_probs_ref))


def half_square(d: Array) -> Array:
    """k2 of d."""
    return d * d / 2


def clamped(xp: Namespace, x: Array) -> Array:
    """A log-ratio between -LIMIT and LIMIT."""
    return xp.clip(x, -LIMIT, LIMIT)


def inside(xp: Namespace, x: Array, slope: Array) -> Array:
    """The slope, 0 where the log-ratio was clamped."""
    return xp.where(xp.abs(x) < LIMIT, slope, 0.0)


def bregman(xp: Namespace, d: Array) -> Array:
    """k3 of a clamped d."""
    return xp.exp(-d) + d - 1


def bregman_slope(xp: Namespace, d: Array) -> Array:
    """dk3/dd = 1 - e^-d, of a clamped d."""
    return 1 - xp.exp(-d)


def corrected(xp: Namespace, x: Array, estimate: Array) -> Array:
    r"""r·k of an estimate k, with r = e^x = pi/pi_old: unbiased where pi_old sampled, not pi.

    The gradient flows through r as well: of r·k3 it is r·d, that of KL(pi‖ref). x is clamped.
    Source: DeepSeek-V3.2, arXiv 2512.02556; TRL's `use_bias_correction_kl`.
    """
    return xp.exp(x) * estimate


def corrected_slope(xp: Namespace, x: Array, estimate: Array, slope: Array) -> Array:
    """r·(k + dk/dd), as d and x grow together; x is not yet clamped, and beyond the clamp r is constant."""
    return xp.exp(clamped(xp, x)) * (inside(xp, x, estimate) + slope)

"""Returns and advantages over time (last axis T): Monte Carlo, n-step, GAE, V-trace, Retrace."""

from __future__ import annotations

from typing import NamedTuple

from tpo import checks
from tpo.arrays import Array, Namespace
from tpo.groups import masked


def backward_recurrence(xp: Namespace, a: Array, b: Array) -> Array:
    """x_t = a_t + b_t·x_{t+1} with x_T = 0, for all t at once by recursive doubling; a, b: [..., T]."""
    step = 1
    while step < a.shape[-1]:
        a, b = a + b * ahead(xp, a, step), b * ahead(xp, b, step)
        step *= 2
    return a


def ahead(xp: Namespace, x: Array, steps: int) -> Array:
    """y_t = x_{t + steps}, 0 past the end."""
    return xp.concatenate((x[..., steps:], xp.zeros_like(x[..., :steps])), axis=-1)


def following(xp: Namespace, x: Array, mask: Array | None) -> Array:
    """y_t = x at the next unmasked token after t, 0 if there is none; x must be 0 where masked."""
    if mask is None:
        return ahead(xp, x, 1)
    return ahead(xp, backward_recurrence(xp, x, xp.cast(~mask, x)), 1)


def accumulated(xp: Namespace, delta: Array, decay: Array, mask: Array | None) -> Array:
    """x_t = delta_t + decay_t·x at the next unmasked token; masked tokens are skipped and get 0."""
    if mask is not None:
        delta, decay = masked(xp, delta, mask), masked(xp, decay, mask, 1.0)
    return masked(xp, backward_recurrence(xp, delta, decay), mask)


def td_residuals(
    xp: Namespace, rewards: Array, values: Array, gamma: float, mask: Array | None
) -> Array:
    """δ_t = r_t + γ V_{t+1} - V_t; rewards and values must be 0 where masked."""
    return rewards + gamma * following(xp, values, mask) - values


def monte_carlo(rewards: Array, gamma: float = 1.0, mask: Array | None = None) -> Array:
    r"""G_t = r_t + γ r_{t+1} + γ² r_{t+2} + ...: what was obtained from each token on.

    .. math:: G_t = \sum_{l \ge 0} \gamma^l r_{t+l}

    All [..., T]. Masked tokens are skipped and get 0. It equals V plus `gae` with λ = 1, whatever V is.
    Source: Sutton and Barto, Reinforcement Learning, chapter 5.
    """
    xp = checks.alike(mask, rewards=rewards)
    return accumulated(xp, rewards, gamma * xp.ones_like(rewards), mask)


def n_step(
    rewards: Array, values: Array, n: int, gamma: float = 1.0, mask: Array | None = None
) -> Array:
    r"""A_t = r_t + ... + γ^{n-1} r_{t+n-1} + γ^n V_{t+n} - V_t, a sum of n residuals δ.

    .. math:: \hat A^{(n)}_t = \sum_{l=0}^{n-1} \gamma^l r_{t+l} + \gamma^n V_{t+n} - V_t
              = \sum_{l=0}^{n-1} \gamma^l \delta_{t+l}

    All [..., T]; the episode ends with the last unmasked token, where V is 0, so n >= T is Monte Carlo minus V.
    `gae` is the mean of these over n with weights (1 - λ)λ^{n-1}. Masked tokens are skipped and get 0.
    Source: Sutton and Barto, Reinforcement Learning, chapter 7.
    """
    xp = checks.alike(mask, rewards=rewards, values=values)
    if isinstance(n, bool) or not isinstance(n, int) or n < 1:
        raise ValueError(f"n is {n!r}, expected a whole number, 1 or above")
    rewards, values = masked(xp, rewards, mask), masked(xp, values, mask)
    delta = masked(xp, td_residuals(xp, rewards, values, gamma, mask), mask)
    total = delta
    for _ in range(min(n, rewards.shape[-1]) - 1):
        total = masked(xp, delta + gamma * following(xp, total, mask), mask)
    return total


def gae(
    rewards: Array,
    values: Array,
    gamma: float = 1.0,
    lam: float | Array = 0.95,
    mask: Array | None = None,
) -> Array:
    r"""A_t = Σ_l (γλ)^l δ_{t+l},  δ_t = r_t + γ V_{t+1} - V_t

    .. math:: \hat A_t = \sum_{l \ge 0} (\gamma\lambda)^l \delta_{t+l}, \qquad
              \delta_t = r_t + \gamma V_{t+1} - V_t

    All [..., T]; the episode ends with the last unmasked token, where V is 0. `lam` may be an array [..., 1],
    one per candidate (see `length_adaptive_lambda`). λ = 0 is one-step TD, λ = 1 Monte Carlo minus V.
    Masked tokens are skipped and get 0: padding at the end, a tool's answer in the middle.
    Source: Schulman et al., arXiv 1506.02438.
    """
    xp = checks.alike(mask, rewards=rewards, values=values)
    rewards, values = masked(xp, rewards, mask), masked(xp, values, mask)
    delta = td_residuals(xp, rewards, values, gamma, mask)
    return accumulated(xp, delta, gamma * lam * xp.ones_like(delta), mask)


def length_adaptive_lambda(lengths: Array, alpha: float = 0.05) -> Array:
    r"""λ = 1 - 1/(α·length), clamped to [0, 1]: long answers look further ahead.

    .. math:: \lambda_{policy} = 1 - \frac{1}{\alpha \ell}

    Any shape. At the published α = .05 every length up to 20 gives 0.
    Source: VAPO, arXiv 2504.05118.
    """
    xp = checks.same_library(lengths=lengths)
    checks.floating(lengths=lengths)
    checks.positive("alpha", alpha)
    return xp.clip(1 - 1 / (alpha * xp.clip(lengths, 1.0, None)), 0.0, 1.0)


class OffPolicyReturns(NamedTuple):
    """Value targets, and the policy-gradient advantages computed from them."""

    targets: Array
    advantages: Array


def vtrace(
    log_ratios: Array,
    rewards: Array,
    values: Array,
    gamma: float = 1.0,
    rho_cap: float = 1.0,
    c_cap: float = 1.0,
    mask: Array | None = None,
) -> OffPolicyReturns:
    r"""v_t = V_t + Σ γ^l (Π c) ρ δ with ρ and c the importance ratios, truncated at a cap.

    .. math:: v_t = V_t + \rho_t\delta_t + \gamma c_t (v_{t+1} - V_{t+1}), \qquad
              A_t = \rho_t (r_t + \gamma v_{t+1} - V_t)

    All [..., T]; log_ratios = log pi - log mu of each sampled token. On-policy the targets are Monte Carlo
    returns. Masked tokens get 0. Source: IMPALA, arXiv 1802.01561.
    """
    xp = checks.alike(mask, log_ratios=log_ratios, rewards=rewards, values=values)
    rewards, values = masked(xp, rewards, mask), masked(xp, values, mask)
    rho = _capped(xp, masked(xp, log_ratios, mask), rho_cap)
    c = _capped(xp, masked(xp, log_ratios, mask), c_cap)
    delta = rho * td_residuals(xp, rewards, values, gamma, mask)
    targets = values + accumulated(xp, delta, gamma * c, mask)
    advantages = rho * (rewards + gamma * following(xp, targets, mask) - values)
    return OffPolicyReturns(targets, masked(xp, advantages, mask))


def retrace(
    log_ratios: Array,
    rewards: Array,
    action_values: Array,
    state_values: Array,
    gamma: float = 1.0,
    lam: float = 1.0,
    mask: Array | None = None,
) -> Array:
    r"""Q_ret = Q + Σ γ^l (Π c) δ with c = λ·min(1, ratio): off-policy action values.

    .. math:: Q^{ret}_t = Q_t + \delta_t + \gamma c_{t+1}(Q^{ret}_{t+1} - Q_{t+1}), \qquad
              \delta_t = r_t + \gamma\, \mathbb{E}_\pi Q(s_{t+1}, \cdot) - Q_t

    All [..., T]; action_values are Q of the sampled tokens; state_values are the expectation of Q under
    pi in the state before each token. Masked tokens get 0. Source: Munos et al., arXiv 1606.02647.
    """
    xp = checks.alike(
        mask,
        log_ratios=log_ratios,
        rewards=rewards,
        action_values=action_values,
        state_values=state_values,
    )
    rewards, action_values = masked(xp, rewards, mask), masked(xp, action_values, mask)
    state_values = masked(xp, state_values, mask)
    c = lam * _capped(xp, masked(xp, log_ratios, mask), 1.0)
    delta = rewards + gamma * following(xp, state_values, mask) - action_values
    correction = accumulated(xp, delta, gamma * following(xp, masked(xp, c, mask), mask), mask)
    return action_values + correction


def _capped(xp: Namespace, log_ratios: Array, cap: float) -> Array:
    """min(ratio, cap), without overflow."""
    checks.positive("cap", cap)
    return xp.clip(xp.exp(xp.clip(log_ratios, None, 60.0)), None, cap)

"""What a critic is fitted to, by the squared error of its values, and how well they explain the returns."""

from __future__ import annotations

from tpo import checks
from tpo.arrays import Array, Namespace
from tpo.groups import Groups, constant, masked, moments
from tpo.objectives.advantages import outcome_rewards
from tpo.objectives.base import Objective
from tpo.objectives.returns import gae, monte_carlo


def value_targets(objective: Objective, groups: Groups) -> Array:
    """[B, K, T] what `groups.values` should become, by `objective.critic_returns`; 0 where masked.

    λ-returns are V plus `gae` with the objective's own γ and λ, by default 1 and .95.
    """
    rewards, gamma = outcome_rewards(groups), getattr(objective, "gamma", 1.0)
    if objective.critic_returns == "monte_carlo":
        return monte_carlo(rewards, gamma, groups.mask)
    lam = getattr(objective, "lam", 0.95)
    return groups.values + gae(rewards, groups.values, gamma, lam, groups.mask)


def value_loss(values: Array, targets: Array, mask: Array | None = None) -> Array:
    r"""½ mean (V - target)² over all unmasked tokens; its gradient by a value is (V - target)/n.

    .. math:: L_V = \frac{1}{2n}\sum_t (V_t - \hat V_t)^2

    All [..., T]. Targets are constants, such as `monte_carlo` returns, V plus `gae`, or those of `vtrace`.
    With every token masked it is 0.
    Source: Mnih et al., arXiv 1602.01783; Schulman et al., arXiv 1707.06347, without its clipping of values.
    """
    xp = checks.alike(mask, values=values, targets=targets)
    error = masked(xp, values - xp.stop_gradient(targets), mask)
    present = xp.ones_like(error) if mask is None else xp.cast(mask, error)
    return 0.5 * xp.sum(error * error) / xp.clip(xp.sum(present), 1.0, None)


def explained_variance(values: Array, returns: Array, mask: Array | None = None) -> Array:
    r"""1 - Var(G - V)/Var(G) over all unmasked tokens: 1 is perfect, 0 no better than a constant.

    .. math:: 1 - \frac{\mathrm{Var}(G - V)}{\mathrm{Var}(G)}

    All [..., T]; the result is a scalar, below 0 where a constant is better than V. It is 0 where all
    returns are equal: there is nothing to explain. A constant error of V does not count; `value_loss` has it.
    """
    xp = checks.alike(mask, values=values, returns=returns)
    chosen = None if mask is None else mask.reshape(-1)
    returns = masked(xp, returns, mask).reshape(-1)
    left = returns - masked(xp, values, mask).reshape(-1)
    equal = constant(xp, returns, chosen)
    variance = xp.where(equal, 1.0, _variance(xp, returns, chosen))
    return xp.where(equal, 0.0, 1 - _variance(xp, left, chosen) / variance)


def _variance(xp: Namespace, x: Array, mask: Array | None) -> Array:
    """The population variance of x [N], a scalar."""
    sigma = moments(xp, x, mask)[1][0]
    return sigma * sigma

"""The constant baseline with the least variance; `tpo.Groups(baseline=...)` takes one per context."""

from __future__ import annotations

from tpo import checks
from tpo.arrays import Array


def optimal_baseline(rewards: Array, squared_norms: Array, weights: Array | None = None) -> Array:
    r"""b* = E[R‖s‖²]/E[‖s‖²]: no other constant gives (R - b)·s less variance, s = ∇ log pi of the sample.

    .. math:: b^* = \frac{\mathbb{E}[R\,\|s\|^2]}{\mathbb{E}[\|s\|^2]}
              = \mathbb{E}[R] + \frac{\mathrm{Cov}(R, \|s\|^2)}{\mathbb{E}[\|s\|^2]}

    rewards, squared_norms: [..., N]; the expectation is over the last axis, with `weights` (such as exact
    probabilities, by default equal ones). Returns [...]. Estimated from the samples it is subtracted from, it
    is no constant and adds a bias of order 1/N. If every norm is 0 it is 0.
    Source: Greensmith, Bartlett, Baxter, JMLR 5, 2004.
    """
    given = {} if weights is None else {"weights": weights}
    xp = checks.alike(rewards=rewards, squared_norms=squared_norms, **given)
    sizes = squared_norms if weights is None else squared_norms * weights
    total = xp.sum(sizes, axis=-1)
    return xp.sum(rewards * sizes, axis=-1) / xp.where(total > 0, total, 1.0)

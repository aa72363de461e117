"""TRPO's constrained step: the natural direction by conjugate gradients, then backtracking to the KL bound."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import optax
from jax.flatten_util import ravel_pytree
from jax.scipy.sparse.linalg import cg

from tpo.lab.policies.base import Params, Policy

PRODUCTS = 10
"""Products with the Fisher matrix in conjugate gradients."""
DAMPING = 1e-5
"""Added to the Fisher matrix, which is singular: a shift of all logits changes no policy."""
HALVINGS = 10
"""At most so many; if no shorter step is allowed either, none is taken."""


def mean_kl(policy: Policy, inputs: Any) -> Callable[[Params, Params], jax.Array]:
    """(old, new) to KL(pi_old‖pi_new), the mean over contexts; for policies of one action."""

    def kl(old: Params, new: Params) -> jax.Array:
        before, after = (jax.nn.log_softmax(policy.prefill(p, inputs)[0]) for p in (old, new))
        return (jnp.exp(before) * (before - after)).sum(-1).mean()

    return kl


def constrained_step(delta: float) -> optax.GradientTransformationExtraArgs:
    r"""Steps along the natural gradient, at most as long as KL(pi_old‖pi) = delta allows.

    .. math:: \Delta = \sqrt{\frac{2\delta}{x^\top F x}}\, x, \qquad F x = -g

    `update` takes, besides gradient and parameters, `loss`, a function of the parameters, and `kl`, that of
    `mean_kl`. A step is halved until the KL is within delta and the loss is lower than before. F is the Hessian
    of the KL at the old policy, and enters through its products with vectors alone.
    Source: Schulman et al., arXiv 1502.05477, appendix C.
    """

    def update(
        grads: Params, state: Any, params: Params | None = None, *, loss: Any, kl: Any, **_: Any
    ) -> tuple[Params, Any]:
        start, restored = ravel_pytree(params)
        g = ravel_pytree(grads)[0]

        def kl_of(x: jax.Array) -> jax.Array:
            found: jax.Array = kl(params, restored(x))
            return found

        def product(x: jax.Array) -> jax.Array:
            return jax.jvp(jax.grad(kl_of), (start,), (x,))[1] + DAMPING * x

        direction, _ = cg(product, -g, maxiter=PRODUCTS)  # type: ignore[no-untyped-call]
        size = direction @ product(direction)
        full = jnp.sqrt(2 * delta / jnp.where(size > 0, size, 1.0)) * direction
        before = loss(params)

        def allowed(share: jax.Array) -> jax.Array:
            x = start + share * full
            return (kl_of(x) <= delta) & (loss(restored(x)) < before)

        def shorter(carry: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
            return carry[0] / 2, carry[1] + 1

        share, _ = jax.lax.while_loop(
            lambda carry: ~allowed(carry[0]) & (carry[1] < HALVINGS),
            shorter,
            (jnp.ones_like(before), jnp.int32(0)),
        )
        return restored(jnp.where(allowed(share), share, 0.0) * full), state

    return optax.GradientTransformationExtraArgs(lambda _: optax.EmptyState(), update)

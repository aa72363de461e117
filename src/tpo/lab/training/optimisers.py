"""Optimisers by name, from optax."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import optax
from optax import contrib

from tpo.lab.names import OPTIMISERS
from tpo.lab.policies.base import Params, Policy
from tpo.lab.training.constrained import constrained_step

FADE = 0.001
"""The norm of the gradient below which fading steps are shorter than Muon's."""


@dataclass(frozen=True)
class Optimiser:
    """muon: Muon on the policy's matrices and AdamW on the rest; adam; sgd; normalized: g/‖g‖.

    muon_fading: Muon's steps times min(1, ‖g‖ / 0.001), so that they vanish with the gradient. trpo: natural
    gradients within a KL of `learning_rate`, for policies of one action (`constrained.constrained_step`). All
    parameters have the same learning rate; there is no decay or schedule. max_grad_norm: the gradient's norm is
    clipped to it before the optimiser sees it; 0, as in the paper, for no clipping.
    """

    name: str = "muon"
    learning_rate: float = 1e-3
    max_grad_norm: float = 0.0

    def __post_init__(self) -> None:
        if self.name not in OPTIMISERS:
            raise ValueError(f"optimiser is {self.name!r}, expected one of {', '.join(OPTIMISERS)}")
        if not self.learning_rate > 0:
            raise ValueError(f"learning_rate is {self.learning_rate}, expected a number above 0")
        if not 0 <= self.max_grad_norm < float("inf"):
            raise ValueError(f"max_grad_norm is {self.max_grad_norm}, expected a number from 0")

    def build(self, policy: Policy) -> Any:
        """The optax transformation for this policy's parameters."""
        found = self._unclipped(policy)
        if not self.max_grad_norm:
            return found
        return optax.chain(optax.clip_by_global_norm(self.max_grad_norm), found)

    def _unclipped(self, policy: Policy) -> Any:
        rate = self.learning_rate
        if self.name == "muon":
            return muon(rate, policy.matrices)
        if self.name == "muon_fading":
            return fading(muon(rate, policy.matrices))
        if self.name == "adam":
            return optax.adam(rate)
        if self.name == "sgd":
            return optax.sgd(rate)
        if self.name == "trpo":
            return constrained_step(rate)
        return optax.chain(optax.normalize_by_update_norm(eps=1e-30), optax.scale(-rate))


def muon(learning_rate: float, matrices: frozenset[str]) -> Any:
    """optax's Muon over the last two axes of the named parameters, its AdamW over the others.

    As `contrib.muon`, but matrices with equal longer sides are orthogonalised in one batched product, and
    AdamW's arrays are concatenated: fewer kernels to compile and to run.
    """

    def axes(params: Params) -> Any:
        return jax.tree.map(lambda _: MATRIX, params)

    orthogonal = optax.chain(
        batched(contrib.scale_by_muon(weight_dimension_numbers=axes)),
        optax.stateless(lambda updates, _: jax.tree.map(_scaled_by_shape, updates)),
        optax.scale_by_learning_rate(learning_rate),
    )
    rest = optax.flatten(optax.adamw(learning_rate, weight_decay=0.0, nesterov=True))
    return optax.partition(
        {True: orthogonal, False: rest},
        lambda params: {name: name in matrices for name in params},
    )


def fading(inner: Any) -> Any:
    """`inner` with steps that vanish with the gradient, even if those of `inner` have a fixed size."""

    def update(updates: Params, state: Any, params: Params | None = None) -> tuple[Params, Any]:
        share = jnp.minimum(1.0, optax.tree.norm(updates) / FADE)
        steps, state = inner.update(updates, state, params)
        return jax.tree.map(lambda x: share * x, steps), state

    return optax.GradientTransformation(inner.init, update)


def _scaled_by_shape(x: jax.Array) -> jax.Array:
    """x times Muon's factor max(1, output/input dimensions)^½."""
    return max(1.0, x.shape[-1] / x.shape[-2]) ** 0.5 * x


MATRIX = contrib.MuonDimensionNumbers(reduction_axis=-2, output_axis=-1)


def batched(inner: Any) -> Any:
    """`inner` applied to stacks of matrices, [N, short, long], one for each length of the longer side.

    Matrices are transposed to be wide, and padded with rows of zeros, which an orthogonalisation leaves zero.
    """

    def init(params: Params) -> Any:
        return inner.init(_stacks(params))

    def update(updates: Params, state: Any, params: Params | None = None) -> tuple[Params, Any]:
        stacks, state = inner.update(_stacks(updates), state)
        return _unstacked(stacks, updates), state

    return optax.GradientTransformation(init, update)


def _stacks(params: Params) -> dict[str, jax.Array]:
    wide = [_wide(x) for x in jax.tree.leaves(params)]
    found = {}
    for length in sorted({x.shape[2] for x in wide}):
        alike = [x for x in wide if x.shape[2] == length]
        rows = max(x.shape[1] for x in alike)
        filled = [jnp.pad(x, [(0, 0), (0, rows - x.shape[1]), (0, 0)]) for x in alike]
        found[str(length)] = jnp.concatenate(filled)
    return found


def _unstacked(stacks: dict[str, jax.Array], like: Params) -> Params:
    leaves, structure = jax.tree.flatten(like)
    taken = dict.fromkeys(stacks, 0)
    found = []
    for leaf in leaves:
        n, rows, length = _wide(leaf).shape
        start = taken[str(length)]
        taken[str(length)] += n
        x = stacks[str(length)][start : start + n, :rows]
        found.append((x if leaf.shape[-1] == length else x.mT).reshape(leaf.shape))
    unstacked: Params = jax.tree.unflatten(structure, found)
    return unstacked


def _wide(x: jax.Array) -> jax.Array:
    """[..., a, b] as [N, short, long]."""
    flat = x.reshape(-1, *x.shape[-2:])
    return flat if flat.shape[1] <= flat.shape[2] else flat.mT

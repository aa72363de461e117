"""Optimisers by name, from optax."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import optax
from optax import contrib

from tpo.policies.base import Params, Policy

NAMES = ("muon", "adam", "sgd", "normalized")


@dataclass(frozen=True)
class Optimiser:
    """muon: Muon on the policy's matrices and AdamW on the rest; adam; sgd; normalized: g/‖g‖.

    The learning rate is that of every parameter; there is no clipping, decay or schedule.
    """

    name: str = "muon"
    learning_rate: float = 1e-3

    def __post_init__(self) -> None:
        if self.name not in NAMES:
            raise ValueError(f"optimiser is {self.name!r}, expected one of {', '.join(NAMES)}")
        if not self.learning_rate > 0:
            raise ValueError(f"learning_rate is {self.learning_rate}, expected a number above 0")

    def build(self, policy: Policy) -> Any:
        """The optax transformation for this policy's parameters."""
        rate = self.learning_rate
        if self.name == "muon":
            return muon(rate, policy.matrices)
        if self.name == "adam":
            return optax.adam(rate)
        if self.name == "sgd":
            return optax.sgd(rate)
        return optax.chain(optax.normalize_by_update_norm(eps=1e-30), optax.scale(-rate))


def muon(learning_rate: float, matrices: frozenset[str]) -> Any:
    """optax's Muon over the last two axes of the named parameters, its AdamW over the others.

    Parameters stacked over layers are orthogonalised layer by layer in one batched product.
    """
    matrix = contrib.MuonDimensionNumbers(reduction_axis=-2, output_axis=-1)

    def axes(params: Params) -> dict[str, Any]:
        return {name: matrix if name in matrices else None for name in params}

    return contrib.muon(learning_rate, muon_weight_dimension_numbers=axes)

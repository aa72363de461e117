"""The four ways an objective runs: NumPy, JAX, JAX under jit, torch; each gives back NumPy arrays."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import torch

import tpo

LIBRARIES = ("numpy", "jax", "jit", "torch")


def double(library: str) -> Any:
    """A context in which the library keeps float64."""
    return jax.enable_x64(True) if library in ("jax", "jit") else nullcontext()


def asarray(library: str, x: Any) -> Any:
    if x is None:
        return None
    if library == "torch":
        return torch.from_numpy(np.array(x))
    return jnp.asarray(x) if library in ("jax", "jit") else np.asarray(x)


def group_of(library: str, fields: Mapping[str, Any]) -> tpo.Groups:
    return tpo.Groups(**{name: asarray(library, x) for name, x in fields.items()})


def run(
    library: str, objective: tpo.Objective, fields: Mapping[str, Any], log_probs: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """Loss, coefficients, and (where the library differentiates) the gradient by autodiff."""
    with double(library):
        group, x = group_of(library, fields), asarray(library, log_probs)
        if library == "numpy":
            prepared = objective.prepare(group)
            return objective.loss(x, prepared), objective.coefficients(x, prepared), None
        if library == "torch":
            prepared = objective.prepare(group)
            leaf = x.clone().requires_grad_()
            loss = objective.loss(leaf, prepared)
            gradient = torch.zeros_like(x)
            if loss.requires_grad:
                (gradient,) = torch.autograd.grad(loss, leaf)
            c = objective.coefficients(x, prepared)
            return loss.detach().numpy(), c.numpy(), gradient.numpy()

        def everything(group: tpo.Groups, x: Any) -> Any:
            prepared = objective.prepare(group)
            return (
                objective.loss(x, prepared),
                objective.coefficients(x, prepared),
                jax.grad(objective.loss)(x, prepared),
            )

        # without LLVM's optimisations, which are most of the time and change no number by more than a rounding
        compiled = jax.jit(everything, compiler_options={"xla_backend_optimization_level": 0})
        results = (compiled if library == "jit" else everything)(group, x)
        return tuple(np.asarray(result) for result in results)  # type: ignore[return-value]


def example(
    seed: int = 0, B: int = 3, K: int = 4, T: int = 5, dtype: str = "float64", masks: bool = False
) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Fields of a Group with everything that any objective may ask for, and new log-probs.

    With masks: ragged lengths, one invalid candidate, and NaN wherever a mask is False.
    """
    rng = np.random.default_rng(seed)
    old = -rng.exponential(size=(B, K, T)) - 0.05
    fields = {
        "log_probs_old": old,
        "scores": rng.integers(0, 2, size=(B, K)).astype(float),
        "log_probs_ref": old + 0.1 * rng.standard_normal((B, K, T)),
        "log_probs_rollout": old + 0.05 * rng.standard_normal((B, K, T)),
        "values": rng.random((B, K, T)),
        "baseline": rng.random(B),
    }
    if B and K > 1:
        fields["scores"][0, :2] = (0.0, 1.0)
    new = old + 0.2 * rng.standard_normal((B, K, T))
    fields = {name: x.astype(dtype) for name, x in fields.items()}
    if masks:
        mask = np.arange(T) < rng.integers(1, T + 1, size=(B, K, 1))
        valid = np.ones((B, K), bool)
        valid[1:, -1] = False
        gone = ~(mask & valid[..., None])
        for name in ("log_probs_old", "log_probs_ref", "log_probs_rollout", "values"):
            fields[name][gone] = np.nan
        fields["scores"][~valid] = np.nan
        new[gone] = np.nan
        fields |= {"mask": mask, "valid": valid}
    return fields, new.astype(dtype)

"""NumPy and torch give the same float64 numbers, and coefficients are what torch differentiates."""

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings

import tpo
from support.libraries import run
from support.random_groups import Batch, batches


@pytest.mark.parametrize("name", tpo.list_objectives())
@settings(max_examples=4)
@given(batches(masks=True))
def test_coefficients_are_the_automatic_gradient_and_numpy_is_torch(
    name: str, batch: Batch
) -> None:
    objective = tpo.objective(name)
    loss, c, _ = run("numpy", objective, batch.fields, batch.new)
    loss_2, c_2, gradient = run("torch", objective, batch.fields, batch.new)
    for found, expected in ((loss_2, loss), (c_2, c), (gradient, c)):
        np.testing.assert_allclose(found, expected, atol=1e-12)


WEIGHED_NOW: tuple[tuple[str, dict[str, Any]], ...] = (
    ("gspo_token", {"clip_low": 0.5, "clip_high": 2.0, "beta": 0.5, "kl_correction": True}),
    ("cispo", {"cap": 1.1, "beta": 0.5, "kl_correction": True}),
    ("reinforce_pp", {"group_baseline": True, "beta": 0.5, "kl_correction": True}),
    ("dg", {"gate_temperature": 0.4}),
)
"""A weight depends on the current policy and has no gradient: only automatic differentiation sees that."""


@pytest.mark.parametrize(("name", "options"), WEIGHED_NOW, ids=str)
@settings(max_examples=6)
@given(batches(masks=True))
def test_weights_of_the_current_policy_have_no_gradient(
    name: str, options: dict[str, Any], batch: Batch
) -> None:
    _, c, gradient = run("torch", tpo.objective(name, **options), batch.fields, batch.new)
    np.testing.assert_allclose(gradient, c, atol=1e-12)


@settings(max_examples=15)
@given(batches() | batches(masks=True))
def test_targets_and_standardised_scores_are_the_same_in_torch(batch: Batch) -> None:
    def in_torch(x: np.ndarray | None) -> torch.Tensor | None:
        return None if x is None else torch.from_numpy(x)

    scores, valid, old = batch.scores, batch.fields.get("valid"), batch.old[..., 0]
    u, u_2 = tpo.standardize(scores, valid), tpo.standardize(in_torch(scores), in_torch(valid))
    np.testing.assert_allclose(u_2, u, atol=1e-12)
    q_2 = tpo.target(in_torch(old), u_2, mask=in_torch(valid))
    np.testing.assert_allclose(q_2, tpo.target(old, u, mask=valid), atol=1e-12)

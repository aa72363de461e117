"""NumPy and torch give the same float64 numbers, and coefficients are what torch differentiates."""

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


@settings(max_examples=15)
@given(batches(masks=True))
def test_targets_and_standardised_scores_are_the_same_in_torch(batch: Batch) -> None:
    scores, valid, old = batch.scores, batch.fields["valid"], batch.old[..., 0]
    u = tpo.standardize(scores, valid)
    tensors = [torch.from_numpy(x) for x in (scores, valid, old)]
    u_2 = tpo.standardize(tensors[0], tensors[1])
    np.testing.assert_allclose(u_2, u, atol=1e-12)
    q_2 = tpo.target(tensors[2], u_2, mask=tensors[1])
    np.testing.assert_allclose(q_2, tpo.target(old, u, mask=valid), atol=1e-12)

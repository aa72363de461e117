"""Muon on stacks of matrices is Muon on each; fading steps end where the gradient does."""

import jax
import numpy as np
import optax
import pytest
from optax import contrib

from tpo.lab.policies import Transformer
from tpo.lab.training.optimisers import FADE, Optimiser, muon

POLICY = Transformer(3, 4, 4, width=16)


def test_batched_muon_is_optaxs():
    matrix = contrib.MuonDimensionNumbers(reduction_axis=-2, output_axis=-1)
    plain = contrib.muon(
        1e-2,
        muon_weight_dimension_numbers=lambda params: {
            name: matrix if name in POLICY.matrices else None for name in params
        },
    )
    start = POLICY.init(jax.random.key(0))
    assert len({max(start[name].shape[-2:]) for name in POLICY.matrices}) < len(POLICY.matrices)
    ends = []
    for optimiser in (muon(1e-2, POLICY.matrices), plain):
        params, state, update = start, optimiser.init(start), jax.jit(optimiser.update)
        for step in range(4):
            keys = jax.random.split(jax.random.key(step), len(start))
            grads = {
                n: jax.random.normal(k, start[n].shape) for n, k in zip(start, keys, strict=True)
            }
            updates, state = update(grads, state, params)
            params = optax.apply_updates(params, updates)
        ends.append(params)
    for name in start:
        assert np.abs(ends[0][name] - start[name]).max() > 1e-3
        np.testing.assert_allclose(ends[0][name], ends[1][name], atol=1e-6, err_msg=name)


def test_a_clipped_gradient_has_at_most_that_norm():
    """SGD of rate 1 steps by minus the gradient: of norm 3 clipped to 2, of norm 1 as it is."""
    start = POLICY.init(jax.random.key(0))
    direction = jax.tree.map(lambda x: x / optax.tree.norm(start), start)
    for max_norm, norm, expected in ((2.0, 3.0, 2.0), (2.0, 1.0, 1.0), (0.0, 3.0, 3.0)):
        optimiser = Optimiser("sgd", 1.0, max_norm).build(POLICY)
        grads = jax.tree.map(lambda x, norm=norm: norm * x, direction)
        step, _ = optimiser.update(grads, optimiser.init(start), start)
        for name in start:
            np.testing.assert_allclose(
                step[name], -expected * direction[name], rtol=1e-5, atol=1e-9
            )
    with pytest.raises(ValueError, match="max_grad_norm is -1"):
        Optimiser("sgd", 1.0, -1)


def test_fading_steps_shrink_with_a_gradient_below_their_norm():
    start = POLICY.init(jax.random.key(0))
    direction = jax.tree.map(lambda x: x / optax.tree.norm(start), start)
    plain, fading = (Optimiser(name, 1e-2).build(POLICY) for name in ("muon", "muon_fading"))
    for norm, share in ((1.0, 1.0), (FADE / 4, 0.25), (0.0, 0.0)):
        grads = jax.tree.map(lambda x, norm=norm: norm * x, direction)
        expected, found = (o.update(grads, o.init(start), start)[0] for o in (plain, fading))
        for name in start:
            np.testing.assert_allclose(found[name], share * expected[name], rtol=1e-4, atol=1e-9)

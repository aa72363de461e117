"""Extreme inputs: far log-scores, one candidate, a thousand, none at all."""

from dataclasses import fields
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

import tpo
from support.libraries import LIBRARIES, asarray, double, example, run
from tpo.objectives.base import entry

NAMES = tpo.list_objectives()


def finite(name: str, fields: dict[str, Any], new: np.ndarray) -> dict[str, np.ndarray]:
    found = {}
    for library in LIBRARIES:
        loss, c, gradient = run(library, tpo.objective(name), fields, new)
        assert np.isfinite(loss), library
        assert np.isfinite(c).all(), library
        assert c.shape == new.shape
        if gradient is not None:
            np.testing.assert_allclose(c, gradient, atol=1e-5, rtol=1e-5, err_msg=library)
        found[library] = c
    return found


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", NAMES)
def test_far_log_scores(name: str, dtype: str) -> None:
    """Sequences at -1e4 nats, a thousand nats apart, moved by hundreds since the rollout."""
    fields, _ = example(30, B=2, K=4, T=1)
    fields["scores"][:] = (0, 1, 0, 1)
    old = -1e4 + 1e3 * np.arange(4.0)[None, :, None] + np.zeros((2, 4, 1))
    fields |= {"log_probs_old": old, "log_probs_ref": old - 300, "log_probs_rollout": old + 0.01}
    new = old + np.array([500.0, -500.0, 0.1, -0.1])[None, :, None]
    finite(name, {k: x.astype(dtype) for k, x in fields.items()}, new.astype(dtype))


@pytest.mark.parametrize("library", LIBRARIES)
def test_far_log_scores_still_give_the_right_target(library: str) -> None:
    # All at -1e4 in float32, where one unit in the last place is a thousandth: q is still softmax(u).
    old = asarray(library, np.full((1, 4), -1e4, np.float32))
    u = tpo.standardize(asarray(library, np.array([[0, 1, 0, 0]], np.float32)))
    q = np.asarray(tpo.target(old, u))
    weights = np.exp([-(3**-0.5), 3**0.5, -(3**-0.5), -(3**-0.5)])
    np.testing.assert_allclose(q[0], weights / weights.sum(), atol=1e-6)


@pytest.mark.parametrize("library", LIBRARIES)
def test_log_scores_a_thousand_nats_apart(library: str) -> None:
    # p_old is one-hot to any precision: no score can move it, and nothing overflows.
    old = asarray(library, np.array([[0.0, -1e3, -2e3]], np.float32))
    u = tpo.standardize(asarray(library, np.array([[0.0, 1.0, 0.0]], np.float32)))
    q = tpo.target(old, u)
    np.testing.assert_allclose(np.asarray(q), [[1, 0, 0]], atol=1e-30)
    np.testing.assert_allclose(np.asarray(tpo.coefficients(old, q)), 0, atol=1e-30)


@pytest.mark.parametrize("name", NAMES)
def test_one_candidate(name: str) -> None:
    fields, new = example(31, B=3, K=1, T=2)
    if name == "rloo":
        with pytest.raises(ValueError, match="K >= 2"):
            run("numpy", tpo.objective(name), fields, new)
        return
    finite(name, fields, new)
    if tpo.objective(name).traits.group and name not in ("mpo", "v_mpo", "reps", "awr", "bolt"):
        del fields["log_probs_ref"], fields["log_probs_rollout"]
        _, c, _ = run("numpy", tpo.objective(name), fields, fields["log_probs_old"])
        np.testing.assert_allclose(
            c, 0, atol=1e-15, err_msg="one candidate has nothing to compare with"
        )


@pytest.mark.parametrize("name", NAMES)
def test_a_thousand_candidates(name: str) -> None:
    fields, new = example(32, B=1, K=1024, T=1)
    loss, c, _ = run("numpy", tpo.objective(name), fields, new)
    single = {k: x.astype("float32") for k, x in fields.items()}
    for library in ("jit", "torch"):
        loss_2, c_2, _ = run(library, tpo.objective(name), single, new.astype("float32"))
        np.testing.assert_allclose(loss_2, loss, rtol=2e-5, atol=1e-6)
        np.testing.assert_allclose(c_2, c, rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize("name", NAMES)
def test_empty_batch(name: str) -> None:
    fields, new = example(33, B=0)
    for library in LIBRARIES:
        loss, c, _ = run(library, tpo.objective(name), fields, new)
        assert loss == 0
        assert c.shape == (0, 4, 5)


@pytest.mark.parametrize("name", NAMES)
def test_nothing_but_masks(name: str) -> None:
    fields, new = example(34)
    fields["valid"] = np.zeros((3, 4), bool)
    for library in LIBRARIES:
        loss, c, _ = run(library, tpo.objective(name), fields, new)
        assert loss == 0
        assert (c == 0).all()


@pytest.mark.parametrize("library", LIBRARIES)
def test_rounding_does_not_separate_equal_scores(library: str) -> None:
    """0.1 summed three times is not 0.3, and 1e8 + 1 is not 1e8: equal scores stay equal, others do not."""
    equal = asarray(library, np.full((1, 3), 0.1, np.float32))
    assert (np.asarray(tpo.standardize(equal)) == 0).all()
    close = np.array([[1e6, 1e6 + 1, 1e6]], np.float32)
    u = np.asarray(tpo.standardize(asarray(library, close)))
    np.testing.assert_allclose(u, [[-(2**-0.5), 2**0.5, -(2**-0.5)]], rtol=1e-5)


def test_primitives_take_any_leading_axes() -> None:
    rng = np.random.default_rng(0)
    old, scores, new = rng.standard_normal((3, 2, 3, 4))
    q = tpo.target(old, tpo.standardize(scores))
    by_row = [
        tpo.loss(new[i, j], tpo.target(old[i, j], tpo.standardize(scores[i, j])))
        for i in range(2)
        for j in range(3)
    ]
    np.testing.assert_allclose(tpo.loss(new, q), np.mean(by_row), atol=1e-12)


@pytest.mark.parametrize("name", NAMES)
def test_a_snapshot_that_is_not_detached_is_frozen_all_the_same(name: str) -> None:
    """In the first epoch of a batch the log-probs are the snapshot too: the gradient is the coefficients."""
    objective, (fields, _) = tpo.objective(name), example(31, B=2, K=4, T=3)
    fields = {k: x.astype(np.float32) if x.dtype == np.float64 else x for k, x in fields.items()}
    own = {k: x for k, x in fields.items() if k != "log_probs_old"}
    old = fields["log_probs_old"]
    expected = objective.coefficients(old, objective.prepare(tpo.Groups(**fields)))

    leaf = torch.from_numpy(old).requires_grad_()
    others = {k: torch.from_numpy(x) for k, x in own.items()}
    now = leaf * 1.0
    loss = objective.loss(now, objective.prepare(tpo.Groups(log_probs_old=now, **others)))
    gradient = torch.autograd.grad(loss, leaf)[0] if loss.requires_grad else torch.zeros_like(leaf)
    np.testing.assert_allclose(gradient.numpy(), expected, atol=1e-5)

    def first_epoch(x: jax.Array) -> jax.Array:
        group = tpo.Groups(log_probs_old=x, **{k: jnp.asarray(v) for k, v in own.items()})
        return objective.loss(x, objective.prepare(group))

    np.testing.assert_allclose(jax.grad(first_epoch)(jnp.asarray(old)), expected, atol=1e-5)


def test_no_gradient_flows_through_a_target() -> None:
    x = torch.zeros(1, 3, requires_grad=True)
    assert not tpo.target(x, tpo.standardize(x + torch.arange(3.0))).requires_grad


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("mask", [None, np.array([[True] * 8])])
def test_rounding_makes_no_group_informative(library: str, mask: np.ndarray | None) -> None:
    # eight scores of one tenth that differ in the last bits of float32
    tenth = np.float32(0.1)
    scores = np.array([[tenth, tenth + np.float32(1e-8)] * 4], np.float32)
    assert len(np.unique(scores)) == 2
    given = (asarray(library, scores), asarray(library, mask))
    assert (np.asarray(tpo.standardize(*given)) == 0).all()
    group = tpo.Groups(
        log_probs_old=asarray(library, np.full((1, 8, 1), -1, np.float32)), scores=given[0]
    )
    assert not np.asarray(group.informative).any()
    pooled = tpo.objective("tpo", ties="pooled").prepare(group)
    assert np.asarray(pooled.same_outcome).all()


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("size", [1e-30, 1e-8, 1.0, 1e20, 1e30])
def test_scores_of_any_size_are_standardised(library: str, size: float) -> None:
    # one success of four: u = (sqrt 3, -1/sqrt 3, ...)
    scores = asarray(library, np.array([[1, 0, 0, 0]], np.float32) * np.float32(size))
    u = np.asarray(tpo.standardize(scores))
    np.testing.assert_allclose(u[0], [3**0.5, *[-(3**-0.5)] * 3], rtol=1e-6)


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_floor_under_sigma(library: str) -> None:
    # sigma is .005 and .5: the first group is divided by .1 instead, the second as ever
    with double(library):
        scores = asarray(library, np.array([[0.01, 0.0], [1.0, 0.0]]))
        u = np.asarray(tpo.standardize(scores, sigma_floor=0.1))
        np.testing.assert_allclose(u, [[0.05, -0.05], [1, -1]])
        group = tpo.Groups(log_probs_old=asarray(library, np.full((2, 2, 1), -1.0)), scores=scores)
        q = np.asarray(tpo.objective("tpo", sigma_floor=0.1).prepare(group).q)
        np.testing.assert_allclose(q[0, 0] / q[0, 1], np.exp(0.1))
        a = np.asarray(tpo.objective("grpo", sigma_floor=0.1).prepare(group).advantages)
        np.testing.assert_allclose(a[..., 0], u)


def test_a_floor_under_sigma_is_a_number_from_0_up() -> None:
    with pytest.raises(ValueError, match="sigma_floor is -1"):
        tpo.standardize(np.zeros((1, 2)), sigma_floor=-1)


FLOORED = [
    name
    for name in tpo.list_objectives()
    if "sigma_floor" in {f.name for f in fields(entry(name).make)}
]


@pytest.mark.parametrize("name", FLOORED)
def test_a_floor_under_sigma_shrinks_a_group_of_nearly_equal_scores(name: str) -> None:
    scores = np.array([[0.0, 0.001, 0.0, 0.0], [0.0, 1.0, 1.0, 0.0]])
    groups = tpo.Groups(log_probs_old=np.full((2, 4, 1), np.log(0.25)), scores=scores)

    def pull(floor: float) -> float:
        """The nearly equal group's largest coefficient, relative to the other group's."""
        objective = tpo.objective(name, sigma_floor=floor)
        c = objective.coefficients(groups.log_probs_old, objective.prepare(groups))
        nearly, other = np.abs(c[..., 0]).max(-1)
        return float(nearly / other)

    assert pull(0.0) > 0.5
    assert pull(0.1) < 0.05

"""Laws that hold for any input: gradients, invariances and masks."""

from typing import Any

import hypothesis.extra.numpy as hnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tpo
from support.libraries import LIBRARIES, example, run
from support.random_groups import softmax

NAMES = tpo.list_objectives()
GROUPED = [name for name in NAMES if tpo.objective(name).traits.group]

SHAPES = hnp.array_shapes(min_dims=2, max_dims=2, min_side=1, max_side=7)


def logits(shape: tuple[int, ...]) -> Any:
    return hnp.arrays(float, shape, elements=st.floats(-30, 30, width=32))


def rewards(shape: tuple[int, ...]) -> Any:
    return hnp.arrays(float, shape, elements=st.sampled_from([0.0, 0.1, 0.25, 1.0, -2.0, 7.0]))


GROUPS = SHAPES.flatmap(lambda s: st.tuples(logits(s), rewards(s), logits(s)))


@given(GROUPS)
def test_standardized_scores(group: tuple[np.ndarray, ...]) -> None:
    _, scores, _ = group
    u = tpo.standardize(scores)
    constant = (scores == scores[:, :1]).all(-1)
    assert (u[constant] == 0).all()
    np.testing.assert_allclose(u.mean(-1), 0, atol=1e-12)
    np.testing.assert_allclose(u[~constant].std(-1), 1, rtol=1e-12)


@given(GROUPS, st.floats(0.1, 10))
def test_target_is_the_tilted_policy(group: tuple[np.ndarray, ...], eta: float) -> None:
    old, scores, _ = group
    u = tpo.standardize(scores)
    tilted = softmax(old) * np.exp(u / eta)
    np.testing.assert_allclose(
        tpo.target(old, u, eta), tilted / tilted.sum(-1, keepdims=True), rtol=1e-9, atol=1e-13
    )


@given(GROUPS)
def test_gradient_of_tpo_is_p_minus_q_over_b(group: tuple[np.ndarray, ...]) -> None:
    old, scores, new = group
    q = tpo.target(old, tpo.standardize(scores))
    c = tpo.coefficients(new, q)
    np.testing.assert_allclose(c, softmax(new) - q, atol=1e-12)
    objective = tpo.objective("tpo")
    prepared = objective.prepare(tpo.Groups(log_probs_old=old[..., None], scores=scores))
    of_batch = objective.coefficients(new[..., None], prepared)[..., 0]
    np.testing.assert_allclose(of_batch, c / len(old), atol=1e-12)
    step = 1e-6
    for i in np.ndindex(new.shape):
        moved = new.copy()
        moved[i] += step
        back = new.copy()
        back[i] -= step
        slope = (tpo.loss(moved, q) - tpo.loss(back, q)) / (2 * step)
        np.testing.assert_allclose(slope, c[i] / len(old), atol=1e-7)


@given(GROUPS)
def test_constant_group_keeps_the_policy_exactly(group: tuple[np.ndarray, ...]) -> None:
    old, scores, _ = group
    q = tpo.target(old, tpo.standardize(np.full_like(scores, 0.1)))
    assert (tpo.coefficients(old, q) == 0).all()


@given(GROUPS, st.floats(-50, 50), st.floats(0.05, 20), st.floats(-1e3, 1e3))
def test_target_ignores_shift_and_scale(
    group: tuple[np.ndarray, ...], shift: float, scale: float, log_shift: float
) -> None:
    old, scores, _ = group
    q = tpo.target(old, tpo.standardize(scores))
    moved = tpo.target(old + log_shift, tpo.standardize(scale * scores + shift))
    np.testing.assert_allclose(moved, q, atol=1e-9)


@pytest.mark.parametrize("name", NAMES)
def test_order_of_candidates_does_not_matter(name: str) -> None:
    fields, new = example(1, B=4, K=5)
    order = np.array([3, 0, 4, 1, 2])
    shuffled = {k: x if k == "baseline" else x[:, order] for k, x in fields.items()}
    loss, c, _ = run("numpy", tpo.objective(name), fields, new)
    loss_2, c_2, _ = run("numpy", tpo.objective(name), shuffled, new[:, order])
    np.testing.assert_allclose(loss_2, loss, atol=1e-12)
    np.testing.assert_allclose(c_2, c[:, order], atol=1e-12)


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("name", NAMES)
def test_masked_candidate_changes_nothing(name: str, library: str) -> None:
    """A group with an invalid candidate full of NaN equals the group without it."""
    fields, new = example(2, B=3, K=4)
    wide = {}
    for key, x in fields.items():
        junk = np.full_like(x[:, :1], np.nan) if x.ndim > 1 else None
        wide[key] = x if junk is None else np.concatenate([x[:, :2], junk, x[:, 2:]], axis=1)
    wide["valid"] = np.array([True, True, False, True, True]) & np.ones((3, 1), bool)
    wide_new = np.concatenate([new[:, :2], np.full_like(new[:, :1], np.nan), new[:, 2:]], axis=1)
    loss, c, _ = run(library, tpo.objective(name), fields, new)
    loss_2, c_2, gradient = run(library, tpo.objective(name), wide, wide_new)
    np.testing.assert_allclose(loss_2, loss, atol=1e-9)
    np.testing.assert_allclose(np.delete(c_2, 2, axis=1), c, atol=1e-7)
    assert (c_2[:, 2] == 0).all()
    if gradient is not None:
        np.testing.assert_allclose(gradient, c_2, atol=1e-12)


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("name", NAMES)
def test_padding_changes_nothing(name: str, library: str) -> None:
    fields, new = example(3)
    padded = {
        key: np.concatenate([x, np.full_like(x, np.nan)], axis=-1) if x.ndim == 3 else x
        for key, x in fields.items()
    }
    padded["mask"] = np.arange(10) < np.full((3, 4, 1), 5)
    padded_new = np.concatenate([new, np.full_like(new, np.nan)], axis=-1)
    options = {"max_length": 5.0} if name == "dr_grpo" else {}
    loss, c, _ = run(library, tpo.objective(name, **options), fields, new)
    loss_2, c_2, _ = run(library, tpo.objective(name, **options), padded, padded_new)
    np.testing.assert_allclose(loss_2, loss, atol=1e-12)
    np.testing.assert_allclose(c_2[..., :5], c, atol=1e-12)
    assert (c_2[..., 5:] == 0).all()


@pytest.mark.parametrize("name", NAMES)
def test_fully_masked_group_adds_exactly_nothing(name: str) -> None:
    fields, new = example(4)
    fields["valid"] = np.array([[True] * 4, [False] * 4, [True] * 4])
    for library in LIBRARIES:
        loss, c, _ = run(library, tpo.objective(name), fields, new)
        assert np.isfinite(loss)
        assert np.isfinite(c).all()
        assert (c[1] == 0).all()
        assert c[0].any() or name.startswith("gspo")


LIKELIHOOD = ("mpo", "v_mpo", "reps", "awr", "bolt", "ce")
"""These raise the likelihood of what was sampled, whatever the scores."""


@pytest.mark.parametrize("name", sorted({*GROUPED} - {*LIKELIHOOD, "tpo_no_anchor"}))
def test_equal_scores_give_no_gradient(name: str) -> None:
    """On-policy, without a KL, a batch of constant groups moves nothing."""
    fields, _ = example(5)
    fields["scores"] = np.full_like(fields["scores"], 0.1)
    for extra in ("log_probs_ref", "log_probs_rollout"):
        del fields[extra]
    _, c, _ = run("numpy", tpo.objective(name), fields, fields["log_probs_old"])
    np.testing.assert_allclose(c, 0, atol=1e-15)


def test_without_its_anchor_tpo_flattens_constant_groups() -> None:
    """The flaw of this ablation: without p_old in the target, equal scores pull p towards uniform."""
    old = np.log([[[0.7], [0.2], [0.1]]])
    fields = {"log_probs_old": old, "scores": np.ones((1, 3))}
    _, c, _ = run("numpy", tpo.objective("tpo_no_anchor"), fields, old)
    np.testing.assert_allclose(c.ravel(), np.array([0.7, 0.2, 0.1]) - 1 / 3, atol=1e-12)


@given(GROUPS)
def test_pooled_ties_are_the_papers_at_the_snapshot_and_have_no_gradient_for_equal_scores(
    group: tuple[np.ndarray, ...],
) -> None:
    old, scores, new = group
    fields = {"log_probs_old": old[..., None], "scores": scores}
    anchored, pooled = tpo.objective("tpo"), tpo.objective("tpo_outcomes")
    _, expected, _ = run("numpy", anchored, fields, old[..., None])
    _, c, _ = run("numpy", pooled, fields, old[..., None])
    np.testing.assert_allclose(c, expected, atol=1e-12)
    _, c, _ = run("numpy", pooled, fields, new[..., None])
    np.testing.assert_allclose(c.sum(1), 0, atol=1e-12)
    constant = (scores == scores[:, :1]).all(-1)
    assert (c[constant] == 0).all()


def test_pooled_ties_are_the_papers_if_no_two_scores_are_equal() -> None:
    fields, new = example(5, masks=True)
    fields["scores"] = np.arange(fields["scores"].size, dtype=float).reshape(fields["scores"].shape)
    _, expected, _ = run("numpy", tpo.objective("tpo"), fields, new)
    _, c, _ = run("numpy", tpo.objective("tpo_outcomes"), fields, new)
    np.testing.assert_allclose(c, expected, atol=1e-14)
    assert c.any()


def test_mdpo_pushes_the_only_success_up() -> None:
    # r log r alone has slope 1/t at r = 1: 1 - 2/3 = 1/3 on the success, which pushed it down
    fields = {
        "log_probs_old": np.log([[[0.2], [0.5], [0.3]]]),
        "scores": np.array([[1.0, 0.0, 0.0]]),
    }
    _, c, _ = run("numpy", tpo.objective("mdpo"), fields, fields["log_probs_old"])
    np.testing.assert_allclose(c[0, :, 0], [-2 / 9, 1 / 9, 1 / 9])


def test_task_logits_fall_where_a_task_improves() -> None:
    a, b, c = tpo.objectives.task_logits_after(
        (0.0, 0.0, 0.0), (0.5, 0.5, 0.1), (0.2, 0.0, 0.0), step=1.0
    )
    assert a < b < c
    # moves -.7, -.5, -.1, mean -.4333333
    np.testing.assert_allclose((a, b, c), (-0.2666667, -0.0666667, 0.3333333), atol=1e-7)


def test_closed_form_equals_autodiff_everywhere() -> None:
    for name in NAMES:
        for masks in (False, True):
            fields, new = example(12, masks=masks)
            for library in ("jax", "torch"):
                _, c, gradient = run(library, tpo.objective(name), fields, new)
                np.testing.assert_allclose(c, gradient, atol=1e-12, err_msg=f"{name} {library}")


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_pmpo_neither_accepts_nor_rejects_the_average(dtype: str) -> None:
    """Scores (.1, .2, .3): the second is the mean up to rounding, which must not decide."""
    fields = {
        "log_probs_old": np.full((1, 3, 1), -1.0, dtype),
        "scores": np.array([[0.1, 0.2, 0.3]], dtype),
    }
    _, c, _ = run("numpy", tpo.objective("pmpo"), fields, fields["log_probs_old"])
    np.testing.assert_allclose(c.ravel(), [0.5, 0.0, -0.5], atol=1e-7)

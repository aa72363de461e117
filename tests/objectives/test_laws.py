"""Laws that hold for any input: gradients, invariances, masks, and what reduces to what."""

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


def on_policy(name: str, seed: int = 6, **options: Any) -> np.ndarray:
    fields, _ = example(seed, masks=True)
    del fields["log_probs_rollout"]
    _, c, _ = run("numpy", tpo.objective(name, **options), fields, fields["log_probs_old"])
    return c


def test_lpo_on_policy_is_tpo_on_mean_ratios() -> None:
    np.testing.assert_allclose(on_policy("lpo"), on_policy("tpo", score="mean_ratio"), atol=1e-15)
    assert on_policy("lpo").any()


def test_lpo_reverse_on_policy_is_a_policy_gradient() -> None:
    # P = 1/K, d = -u: P_i(d_i - d̄) = -u_i/K, on the mean of a sequence's log-probs: that of grpo_no_kl.
    np.testing.assert_allclose(on_policy("lpo_reverse"), on_policy("grpo_no_kl"), atol=1e-12)


@pytest.mark.parametrize(
    ("alpha", "name", "offset"), [(1e-6, "lpo", True), (1 - 1e-6, "lpo_reverse", False)]
)
def test_lpo_alpha_lies_between_the_two_kls(alpha: float, name: str, offset: bool) -> None:
    fields, new = example(7)
    _, c, _ = run("numpy", tpo.objective("lpo_alpha", alpha=alpha), fields, new)
    _, limit, _ = run("numpy", tpo.objective(name), fields, new)
    np.testing.assert_allclose(c, limit, atol=1e-6)


@pytest.mark.parametrize("name", ["ppo", "grpo_no_kl", "sapo", "cispo", "dapo", "gspo", "dr_grpo"])
def test_ratio_objectives_start_as_policy_gradients(name: str) -> None:
    """At r = 1 the coefficient is -weight·advantage: proportional to the advantage within a sequence."""
    over = {"ppo": "candidate", "cispo": "token", "dapo": "token", "dr_grpo": "constant"}
    advantage = {"ppo": "position", "dr_grpo": "centred"}.get(name, "z")
    fields, _ = example(8)
    fields["scores"][:, :2] = (0.0, 1.0)  # no constant group, which dapo would drop
    del fields["log_probs_ref"], fields["log_probs_rollout"]
    reinforce = tpo.objective("reinforce", advantage=advantage, over=over.get(name, "sequence"))
    _, expected, _ = run("numpy", reinforce, fields, fields["log_probs_old"])
    _, c, _ = run("numpy", tpo.objective(name), fields, fields["log_probs_old"])
    np.testing.assert_allclose(c, expected, atol=1e-12)
    assert expected.any()


@pytest.mark.parametrize("masks", [False, True])
def test_gspo_and_gspo_token_agree(masks: bool) -> None:
    fields, new = example(9, masks=masks)
    for options in ({}, {"clip_low": 0.3, "clip_high": 0.3, "beta": 0.1}):
        if options and masks is False:
            del fields["log_probs_ref"]
        for library in LIBRARIES:
            loss, c, _ = run(library, tpo.objective("gspo", **options), fields, new)
            loss_2, c_2, _ = run(library, tpo.objective("gspo_token", **options), fields, new)
            np.testing.assert_allclose(loss_2, loss, atol=1e-12)
            np.testing.assert_allclose(c_2, c, atol=1e-12)
    assert c.any()


def test_sapo_weighs_one_at_ratio_one() -> None:
    fields, _ = example(10)
    weighted = tpo.objective("reinforce", advantage="z", over="sequence")
    _, expected, _ = run("numpy", weighted, fields, fields["log_probs_old"])
    _, c, _ = run("numpy", tpo.objective("sapo"), fields, fields["log_probs_old"])
    np.testing.assert_allclose(c, expected, rtol=1e-12)


@given(rewards((3, 5)))
def test_rloo_is_the_centred_score_times_k_over_k_minus_1(scores: np.ndarray) -> None:
    fields = {"log_probs_old": np.full((3, 5, 1), -1.0), "scores": scores}
    _, c, _ = run("numpy", tpo.objective("rloo"), fields, fields["log_probs_old"])
    others = (scores.sum(-1, keepdims=True) - scores) / 4
    np.testing.assert_allclose(-c[..., 0] * 15, scores - others, atol=1e-12)
    np.testing.assert_allclose(
        -c[..., 0] * 15, 5 / 4 * (scores - scores.mean(-1, keepdims=True)), atol=1e-12
    )


def test_trust_region_penalties_vanish_to_first_order() -> None:
    plain = on_policy("reinforce")
    np.testing.assert_allclose(on_policy("trpo_penalty"), plain, atol=1e-12)
    np.testing.assert_allclose(on_policy("mdpo"), plain, atol=1e-12)


def test_mdpo_pushes_the_only_success_up() -> None:
    # r log r alone has slope 1/t at r = 1: 1 - 2/3 = 1/3 on the success, which pushed it down
    fields = {
        "log_probs_old": np.log([[[0.2], [0.5], [0.3]]]),
        "scores": np.array([[1.0, 0.0, 0.0]]),
    }
    _, c, _ = run("numpy", tpo.objective("mdpo"), fields, fields["log_probs_old"])
    np.testing.assert_allclose(c[0, :, 0], [-2 / 9, 1 / 9, 1 / 9])


def test_importance_weights_average_over_candidates_as_reinforce_does() -> None:
    # groups of three and of one: at r = 1 both give -A over the four candidates there are
    fields = {
        "log_probs_old": np.full((2, 3, 1), -1.0),
        "scores": np.array([[1.0, 0.0, 0.5], [2.0, 0.0, 0.0]]),
        "valid": np.array([[True, True, True], [True, False, False]]),
    }
    given = {"advantage": "score"}
    _, c, _ = run("numpy", tpo.objective("pg_is", **given), fields, fields["log_probs_old"])
    _, other, _ = run("numpy", tpo.objective("reinforce", **given), fields, fields["log_probs_old"])
    np.testing.assert_allclose(c, other)
    np.testing.assert_allclose(c[..., 0], [[-0.25, 0, -0.125], [-0.5, 0, 0]])


def test_mt_grpo_without_tasks_is_grpo_masked() -> None:
    np.testing.assert_allclose(on_policy("mt_grpo", seed=11), on_policy("grpo_masked", seed=11))


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

"""Objectives that are others in a special case: on-policy, at one value of an option, to first order."""

from typing import Any

import hypothesis.extra.numpy as hnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tpo
from support.libraries import LIBRARIES, example, run


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


@given(hnp.arrays(float, (3, 5), elements=st.sampled_from([0.0, 0.1, 0.25, 1.0, -2.0, 7.0])))
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

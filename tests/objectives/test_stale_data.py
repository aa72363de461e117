"""Objectives made for samples of an older policy: what they measure from, what they drop, where they stop."""

import math

import numpy as np
import pytest

import tpo

NAMES = ["dppo", "dppo_kl", "opsm", "topr", "opmd", "oapl", "vespo", "m2po"]


def groups(old: list[list[float]], scores: list[float], **fields: list[list[float]]) -> tpo.Groups:
    """One context of one-token candidates, from probabilities."""
    logs = {name: np.log(x)[None] for name, x in {"log_probs_old": old, **fields}.items()}
    return tpo.Groups(scores=np.array([scores]), **logs)


def coefficients(
    name: str, group: tpo.Groups, new: list[list[float]], **options: float | str
) -> np.ndarray:
    objective = tpo.objective(name, **options)
    return objective.coefficients(np.log(new)[None], objective.prepare(group))[0]


@pytest.mark.parametrize("name", NAMES)
def test_the_origin_is_the_policy_that_sampled(name: str) -> None:
    """With the engine's log-probs the snapshot has no influence, whatever it is."""
    new, mu, scores = [[0.5], [0.3], [0.3]], [[0.35], [0.45], [0.2]], [1.0, 0.0, 0.4]
    options = {"tau": 2.0} if name == "m2po" else {}  # by default it drops all of these
    far = groups([[0.9], [0.1], [0.6]], scores, log_probs_rollout=mu)
    at_mu = groups(mu, scores)
    np.testing.assert_allclose(
        coefficients(name, far, new, **options),
        coefficients(name, at_mu, new, **options),
        rtol=1e-12,
    )
    assert not np.allclose(
        coefficients(name, groups([[0.9], [0.1], [0.6]], scores), new, **options),
        coefficients(name, at_mu, new, **options),
    )


def test_with_anchor_reference_oapl_is_a_star_po() -> None:
    new, ref = [[0.5], [0.3]], [[0.2], [0.6]]
    group = groups([[0.4], [0.4]], [1.0, 0.0], log_probs_ref=ref, log_probs_rollout=[[0.7], [0.1]])
    # V = ½ log((e² + 1)/2) = .7168904; x = log(.5/.2), log(.3/.6); c = beta2 (beta2 x - (R - V)), K = 2
    value = 0.5 * math.log((math.exp(2) + 1) / 2)
    found = coefficients("oapl", group, new, beta2=0.1, anchor="reference")[:, 0]
    wanted = [0.1 * (0.1 * math.log(2.5) - (1 - value)), 0.1 * (0.1 * math.log(0.5) + value)]
    np.testing.assert_allclose(found, wanted, rtol=1e-12)
    with pytest.raises(ValueError, match="needs log_probs_ref"):
        coefficients("oapl", groups([[0.4], [0.4]], [1.0, 0.0]), new, anchor="reference")


@pytest.mark.parametrize(
    ("then", "now", "score", "kept"),
    [
        (0.50, 0.70, 1.0, False),  # .2 further with its advantage
        (0.50, 0.60, 1.0, True),  # .1 only
        (0.50, 0.30, 1.0, True),  # far, but back towards the rollout policy
        (0.50, 0.30, 0.0, False),  # a failure, .2 further down
        (0.50, 0.70, 0.0, True),
        (
            0.01,
            0.05,
            1.0,
            True,
        ),  # five times as probable, which PPO would clip, and .04 in probability
    ],
)
def test_dppo_drops_what_moved_too_far_in_probability(
    then: float, now: float, score: float, kept: bool
) -> None:
    group = groups([[then], [0.4]], [score, 1 - score])
    c = coefficients("dppo", group, [[now], [0.4]])
    # A = ±½, K = 2, T = 1: c = -r A/2
    wanted = -now / then * (score - 0.5) / 2 if kept else 0.0
    np.testing.assert_allclose(c[0, 0], wanted, rtol=1e-12, atol=0)


def test_dppo_kl_by_hand() -> None:
    # KL(.5‖.7) = ½ log(.5/.7) + ½ log(.5/.3) = .0872 > .05 is dropped; KL(.5‖.6) = .0204 is not.
    group = groups([[0.5], [0.5]], [1.0, 0.0])
    assert coefficients("dppo_kl", group, [[0.7], [0.4]])[:, 0].tolist() == [
        0.0,
        0.4 / 0.5 * 0.5 / 2,
    ]
    np.testing.assert_allclose(
        coefficients("dppo_kl", group, [[0.6], [0.5]])[0, 0], -0.3, rtol=1e-12
    )


def test_dppo_is_finite_at_probability_one() -> None:
    group = groups([[1.0], [1e-12]], [1.0, 0.0])
    for name in ("dppo", "dppo_kl"):
        assert np.isfinite(coefficients(name, group, [[1e-12], [1.0]])).all()


def test_opsm_drops_stale_failures_only() -> None:
    # Both candidates lost a factor 2 per token, log 2 = .69 > .5 nats. A success keeps its gradient, a failure does not.
    group = groups([[0.4, 0.4], [0.4, 0.4]], [1.0, 0.0])
    c = coefficients("opsm", group, [[0.2, 0.2], [0.2, 0.2]])
    # u = ±1; r = ½: -r u/(T K) = -1/8 for each token of the success
    np.testing.assert_allclose(c, [[-0.125, -0.125], [0.0, 0.0]], rtol=1e-12)
    # a mean of ½(log 4 + log ½) = .35 nats is inside; the first token is below GRPO's clip bound, the second has r = 2
    c = coefficients("opsm", group, [[0.2, 0.2], [0.1, 0.8]])
    np.testing.assert_allclose(c[1], [0, 0.5], rtol=1e-12)


def test_topr_leaves_a_failure_that_is_gone() -> None:
    group = groups([[0.5], [0.5]], [1.0, 0.0])
    c = coefficients("topr", group, [[0.005], [0.005]])
    np.testing.assert_allclose(c[:, 0], [-0.25, 0.25 * 0.01], rtol=1e-12)
    # a failure that grew is pushed as hard as a fresh one, not harder
    np.testing.assert_allclose(coefficients("topr", group, [[0.5], [0.9]])[1, 0], 0.25, rtol=1e-12)


@pytest.mark.parametrize("granularity", ["sequence", "token"])
def test_opmd_stops_at_its_target(granularity: str) -> None:
    """x = A/tau: with A = ±½ and tau = 2 a log-ratio of ±¼, over the sequence or on each token."""
    shift = 0.25 if granularity == "token" else 0.25 / 2
    old = np.log([[0.3, 0.4], [0.5, 0.2]])
    group = groups(np.exp(old).tolist(), [1.0, 0.0])
    new = np.exp(old + shift * np.array([[1, 1], [-1, -1]]))
    c = coefficients("opmd", group, new.tolist(), tau=2.0, granularity=granularity)
    np.testing.assert_allclose(c, 0, atol=1e-15)
    assert coefficients("opmd", group, np.exp(old).tolist(), tau=2.0, granularity=granularity).all()


def test_oapls_value_lies_between_mean_and_best() -> None:
    scores = [3.0, 0.0, 0.0]
    group = groups([[0.3], [0.3], [0.3]], scores)
    for beta1, value in ((1e-3, 3.0), (1e6, 1.0)):
        c = coefficients("oapl", group, [[0.3], [0.3], [0.3]], beta1=beta1, beta2=1.0)
        # at x = 0: c = -2 (R - V)/K
        np.testing.assert_allclose(c[:, 0], [-2 / 3 * (r - value) for r in scores], atol=2e-3)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("correct", ["tis", "icepop"])
def test_what_measures_from_the_sampler_is_not_corrected_again(name: str, correct: str) -> None:
    with pytest.raises(ValueError, match="correct for it twice"):
        tpo.objective(name, correct=correct)

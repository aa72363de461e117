"""Preference objectives: which pairs they form, where they stop, and what a reference changes."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tpo
from support.libraries import LIBRARIES, run

OLD = np.log(np.array([[[0.4], [0.3], [0.2], [0.1]]]))
NEW = OLD + np.array([0.5, -0.2, 0.1, -0.4])[None, :, None]


def sigmoid(x: float) -> float:
    return 1 / (1 + np.exp(-x))


@pytest.mark.parametrize("library", LIBRARIES)
def test_dpo_takes_every_pair_of_a_group(library: str) -> None:
    # Scores 1, 0, .5, 0: pairs (0,1) (0,2) (0,3) (2,1) (2,3) with margins .7, .4, .9, .3, .5; 1 and 3 are level.
    fields = {"log_probs_old": OLD, "scores": np.array([[1.0, 0.0, 0.5, 0.0]])}
    loss, c, _ = run(library, tpo.objective("dpo", beta=2.0), fields, NEW)
    margins = np.array([0.7, 0.4, 0.9, 0.3, 0.5])
    np.testing.assert_allclose(loss, -np.log(sigmoid(2 * margins)).mean(), atol=1e-9)
    push = 2 / 5 * sigmoid(-2 * margins)  # of each pair
    expected = [-push[:3].sum(), push[0] + push[3], push[1] - push[3:].sum(), push[2] + push[4]]
    np.testing.assert_allclose(c[0, :, 0], expected, atol=1e-9)


@pytest.mark.parametrize("library", LIBRARIES)
def test_ipo_stops_at_its_margin(library: str) -> None:
    # tau = .25: a margin of 2. The pair at (1, -1) has it, and one at (2, -1) is pulled back by 2(3 - 2).
    fields = {"log_probs_old": np.log([[[0.3], [0.3]]]), "scores": np.array([[1.0, 0.0]])}
    for x, slope in (((1.0, -1.0), 0.0), ((2.0, -1.0), 2.0)):
        new = fields["log_probs_old"] + np.array(x)[None, :, None]
        _, c, _ = run(library, tpo.objective("ipo", tau=0.25), fields, new)
        np.testing.assert_allclose(c[0, :, 0], [slope, -slope], atol=1e-12)


@pytest.mark.parametrize("library", LIBRARIES)
def test_kto_judges_against_the_mean_log_ratio(library: str) -> None:
    # x = .5, -.2, .1, .4, so z = .2; scores above .4 are desirable. beta 2, lambda 1 and 3.
    new = OLD + np.array([0.5, -0.2, 0.1, 0.4])[None, :, None]
    fields = {"log_probs_old": OLD, "scores": np.array([[1.0, 0.0, 0.5, 0.4]])}
    objective = tpo.objective("kto", beta=2.0, correct_above=0.4, weight_undesirable=3.0)
    loss, c, _ = run(library, objective, fields, new)
    good, bad = sigmoid(-2 * np.array([0.3, -0.1])), sigmoid(2 * np.array([-0.4, 0.2]))
    np.testing.assert_allclose(loss, (good.sum() + 3 * bad.sum()) / 4, atol=1e-9)
    expected = [
        *(-2 / 4 * good * (1 - good))[:1],
        *(6 / 4 * bad * (1 - bad))[:1],
        *(-2 / 4 * good * (1 - good))[1:],
        *(6 / 4 * bad * (1 - bad))[1:],
    ]
    np.testing.assert_allclose(c[0, :, 0], expected, atol=1e-9)


@pytest.mark.parametrize("name", ["dpo", "ipo", "kto"])
def test_log_ratios_are_to_the_reference(name: str) -> None:
    """With a reference the snapshot has no influence."""
    scores, reference = np.array([[1.0, 0.0, 0.5, 0.0]]), OLD - 0.3 * np.arange(4)[None, :, None]
    found = [
        run("numpy", tpo.objective(name), {"log_probs_old": old, "scores": scores, **extra}, NEW)[1]
        for old, extra in (
            (OLD, {"log_probs_ref": reference}),
            (OLD - 1, {"log_probs_ref": reference}),
            (reference, {}),
            (OLD, {}),
        )
    ]
    np.testing.assert_allclose(found[1], found[0], rtol=1e-12)
    np.testing.assert_allclose(found[2], found[0], rtol=1e-12)
    assert not np.allclose(found[3], found[0])


@settings(max_examples=20)
@given(st.floats(0.1, 3), st.floats(-2, 2))
def test_dpo_of_a_pair_is_cross_entropy_over_the_pair(beta: float, margin: float) -> None:
    """With K = 2, DPO is cross-entropy to the better candidate of a softmax over beta·log-ratios."""
    old = np.log([[[0.3], [0.3]]])
    new = old + np.array([margin, 0.0])[None, :, None]
    fields = {"log_probs_old": old, "scores": np.array([[1.0, 0.0]])}
    loss, c, _ = run("numpy", tpo.objective("dpo", beta=beta), fields, new)
    log_p = beta * (new - old)[0, :, 0] - np.logaddexp(beta * margin, 0)
    np.testing.assert_allclose(loss, -log_p[0], rtol=1e-9)
    np.testing.assert_allclose(c[0, :, 0], beta * (np.exp(log_p) - [1, 0]), rtol=1e-7, atol=1e-12)


@settings(max_examples=20)
@given(st.floats(0.05, 2), st.integers(0, 100))
def test_gvpo_is_a_quarter_of_rebel(beta: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    old, scores = rng.normal(-1, 1, (2, 4, 3)), rng.normal(size=(2, 4))
    fields = {"log_probs_old": old, "scores": scores}
    new = old + 0.3 * rng.normal(size=old.shape)
    gvpo, c, _ = run("numpy", tpo.objective("gvpo", beta=beta), fields, new)
    rebel, c_2, _ = run("numpy", tpo.objective("rebel", eta=1 / beta), fields, new)
    np.testing.assert_allclose(gvpo, rebel / 4, rtol=1e-9)
    np.testing.assert_allclose(c, c_2 / 4, rtol=1e-9, atol=1e-15)


def test_bolts_fit_is_the_boltzmann_policy() -> None:
    """In the mean over samples of the reference, the gradient vanishes at pi ∝ pi_ref·exp(R/beta)."""
    reference, reward, beta = np.array([0.5, 0.3, 0.2]), np.array([0.0, 1.0, 0.4]), 0.5
    best = reference * np.exp(reward / beta)
    best /= best.sum()
    rng = np.random.default_rng(0)
    actions = rng.choice(3, size=(400, 256), p=reference)
    fields = {"log_probs_old": np.log(reference[actions])[..., None], "scores": reward[actions]}
    objective = tpo.objective("bolt", temperature=beta)
    _, c, _ = run("numpy", objective, fields, np.log(best[actions])[..., None])
    weight = np.array([-c[..., 0][actions == a].sum() for a in range(3)])
    np.testing.assert_allclose(weight, best, atol=5e-3)

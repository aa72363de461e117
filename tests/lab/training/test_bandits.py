"""The tabular studies: closed forms followed exactly, and what they are known to show."""

from dataclasses import replace

import numpy as np
import pytest

from support.reference import softmax
from tpo.diagnostics.population import METHODS
from tpo.lab.policies import Table
from tpo.lab.rollouts import Rollout
from tpo.lab.tasks import Bandit
from tpo.lab.training import Budget, Cell, Measures, Method, Optimiser, Staleness, run
from tpo.lab.training.episode import Learner

ARMS, CONTEXTS, STEP = 10, 20, 0.1


def beta(method, p):
    """The closed forms of the paper's section 3, written out once more."""
    factor = np.exp(ARMS / np.sqrt(ARMS - 1))
    return {
        "ce": np.ones_like(p),
        "pg": p,
        "dg": p / (1 + p),
        "grpo": np.sqrt(p / (1 - p)),
        "tpo": p * (factor - 1) / (1 - p + factor * p),
    }[method]


def cell(objective, options=(), episodes=30, **more):
    return Cell(
        Bandit(ARMS, CONTEXTS),
        Method(objective, options, Rollout("oracle"), 1),
        Budget(CONTEXTS, episodes, seeds=2),
        Optimiser("normalized", STEP),
        Table(CONTEXTS, ARMS, spread=1.0),
        **more,
    )


def closed_form(method, seed, episodes):
    """Expected errors after each step, and 1 - cos to the CE direction before it, in float64."""
    start = Learner(cell("tpo"), 1).init(np.uint32(seed))
    logits = np.asarray(start.params["logits"], np.float64)
    errors, misaligned = [], []
    for _ in range(episodes):
        pi = softmax(np, logits)
        v = np.eye(ARMS)[0] - pi
        g = beta(method, pi[:, :1]) * v
        misaligned.append(1 - (g * v).sum() / np.linalg.norm(g) / np.linalg.norm(v))
        logits = logits + STEP * g / np.linalg.norm(g)
        errors.append(1 - softmax(np, logits)[:, 0].mean())
    return np.array(errors), np.array(misaligned)


@pytest.mark.parametrize("method", METHODS)
def test_population_updates_follow_the_closed_form(method):
    curves = run(cell("population", (("method", method),), measures=Measures(against="ce")))
    for seed in range(2):
        errors, misaligned = closed_form(method, seed, 30)
        np.testing.assert_allclose(curves["error_after"][seed], errors, atol=1e-6)
        np.testing.assert_allclose(curves["misalignment"][seed], misaligned, atol=1e-6)
    assert errors[-1] < errors[0] - 0.04


@pytest.mark.parametrize("method", ["tpo", "ce"])
def test_the_objectives_themselves_give_the_closed_form(method):
    """With every action in the group and its true reward, q - pi is beta(p)·(e_y - pi)."""
    curves = run(cell(method))
    np.testing.assert_allclose(curves["error_after"][1], closed_form(method, 1, 30)[0], atol=1e-6)


def sampled(objective, kind, options=(), baseline=0.5):
    """Fig. 3 at a smaller size: one context, a batch of samples, a step of norm .1."""
    return Cell(
        Bandit(50),
        Method(objective, options, Rollout(kind, baseline=baseline), 1),
        Budget(50, 150, seeds=8),
        Optimiser("normalized", STEP),
        measures=Measures(against="pg"),
    )


def test_the_sampled_bandit_starts_uniform_and_tpo_leads():
    tpo = run(sampled("tpo", "pooled"))
    pg = run(sampled("reinforce", "single", (("advantage", "given"),)))
    np.testing.assert_allclose(tpo["expected_error"][:, 0], 1 - 1 / 50, atol=1e-6)
    last = {name: curves["expected_error"][:, -1].mean() for name, curves in
            {"tpo": tpo, "pg": pg}.items()}  # fmt: skip
    assert last["tpo"] < last["pg"] < 0.9
    assert tpo["misalignment"].mean() < pg["misalignment"].mean()


def test_remax_learns_with_a_greedy_decode_as_its_baseline():
    learner = sampled("remax", "single", baseline="greedy")
    error = run(learner)["error_after"].mean(0)
    assert error[0] > 0.9
    assert error[-1] < 0.3


def test_remax_without_a_baseline_names_the_rollout_option():
    with pytest.raises(ValueError, match="'remax' subtracts a baseline.*baseline='greedy'"):
        sampled("remax", "single", baseline=None)


def test_a_correction_compares_the_learner_with_an_actor_that_lags():
    """A cap below every ratio is a factor of all gradients; without a lag nothing is compared."""

    def norms(lag, **options):
        one = cell("tpo", tuple(options.items()), episodes=4, staleness=lag)
        one = replace(one, optimiser=Optimiser("sgd", 1e-3))
        return run(one)["gradient_norm"]

    lag = Staleness(2, anchor="learner")
    np.testing.assert_allclose(norms(lag, correct="tis@0.001"), 1e-3 * norms(lag), rtol=2e-2)
    with pytest.raises(ValueError, match="'tpo' holds correct.*--delay"):
        norms(Staleness(), correct="tis")


def test_the_lab_anneals_eta():
    """The first episode has the first eta; from then on the run is another. One value for both ends changes nothing."""

    def error(**options):
        method = Method("tpo", tuple(options.items()), Rollout("sequence", 8), 1)
        found = run(Cell(Bandit(ARMS), method, Budget(10, 6), Optimiser("sgd", 1.0)))
        return found["error_after"][0]

    constant, same, rising = (
        error(eta=0.5),
        error(eta=0.5, eta_final=0.5),
        error(eta=0.5, eta_final=50.0),
    )
    np.testing.assert_allclose(same, constant, rtol=1e-5)
    assert rising[0] == pytest.approx(constant[0], rel=1e-5)
    assert not np.allclose(rising[1:], constant[1:], rtol=1e-3)

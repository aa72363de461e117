"""TPO composed with scales, a KL budget, several rewards, DG's gate and shares of tasks; each on every library."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tpo
from support.libraries import LIBRARIES, example, run

few = settings(max_examples=20, deadline=None)


def target_of(fields: dict[str, np.ndarray], **options: object) -> np.ndarray:
    found: np.ndarray = tpo.objective("tpo", **options).prepare(tpo.Groups(**fields)).q
    return found


def kl(q: np.ndarray, p: np.ndarray) -> np.ndarray:
    total: np.ndarray = np.sum(np.where(q > 0, q * np.log(np.where(q > 0, q, 1) / p), 0), axis=-1)
    return total


@pytest.mark.parametrize(
    "options",
    [
        {"scale": "one"}, {"scale": "mean"}, {"scale": "batch_sigma"}, {"scale": "each_reward"}, {"kl_budget": 0.05},
        {"weight": "gate", "score": "ratio"}, {"kl_budget": 0.2, "ties": "pooled", "weight": "gate", "scale": "one"},
        {"task_logits": (0.5,)},
        {"task_logits": (0.5,), "weight": "accuracy", "anchor": False, "score": "ratio", "kl_budget": 0.1},
    ],
    ids=str,
)  # fmt: skip
def test_the_closed_form_is_the_gradient_on_every_library(options: dict[str, object]) -> None:
    fields, new = example(3, B=3, K=4, T=2, masks=True)
    objective = tpo.objective("tpo", **options)
    _, c, _ = run("numpy", objective, fields, new)
    assert np.abs(c).max() > 1e-3
    for library in LIBRARIES[1:]:
        _, other, gradient = run(library, objective, fields, new)
        np.testing.assert_allclose(other, c, atol=1e-9, err_msg=library)
        np.testing.assert_allclose(gradient, other, atol=1e-12, err_msg=library)


@pytest.mark.parametrize("scale", ["sigma", "one", "mean", "batch_sigma"])
def test_a_scale_is_lpos_tau(scale: str) -> None:
    fields, _ = example(5, B=3, K=4, T=2)
    del fields["log_probs_rollout"]
    ours = target_of(fields, scale=scale, score="mean_ratio")
    theirs = tpo.objective("lpo", tau=scale).prepare(tpo.Groups(**fields)).q
    np.testing.assert_allclose(ours, theirs, rtol=1e-12)


@few
@given(
    st.lists(st.floats(-3, 3), min_size=3, max_size=6),
    st.lists(st.floats(-2, 0), min_size=6, max_size=6),
    st.floats(0.01, 0.4),
)
def test_each_group_spends_the_budget(scores: list[float], old: list[float], budget: float) -> None:
    K = len(scores)
    fields = {"log_probs_old": np.array([old[:K]])[..., None], "scores": np.array([scores])}
    q = target_of(fields, kl_budget=budget)
    p = np.exp(fields["log_probs_old"][..., 0])
    p = p / p.sum()
    best = p[np.array([scores]) == max(scores)].sum()
    if np.ptp(scores) < 1e-3:
        return  # equal scores, or nearly: see below
    assert kl(q, p) == pytest.approx(min(budget, -np.log(best)), abs=2e-3 if best > 0.5 else 1e-9)


def test_a_budget_by_hand() -> None:
    # Uniform p_old of two: KL = log 2 - H(w) = .1109441 for w = σ(1) = .7310586, u = ±1, so eta = 2.
    # The second group has equal scores.
    fields = {
        "log_probs_old": np.full((2, 2, 1), -1.0),
        "scores": np.array([[1.0, 0.0], [2.0, 2.0]]),
    }
    wanted = [[0.5 - 0.7310585786, 0.7310585786 - 0.5], [0, 0]]
    objective = tpo.objective("tpo", kl_budget=0.11094407167)
    for library in LIBRARIES:
        _, c, _ = run(library, objective, fields, fields["log_probs_old"])
        np.testing.assert_allclose(2 * c[..., 0], wanted, atol=1e-8, err_msg=library)
    same = target_of(fields, eta=2.0)
    np.testing.assert_allclose(target_of(fields, kl_budget=0.11094407167), same, atol=1e-8)


def test_a_budget_beyond_the_best_candidates_gives_them_all_mass() -> None:
    fields = {"log_probs_old": np.zeros((1, 4, 1)), "scores": np.array([[1.0, 0.0, 0.0, 1.0]])}
    np.testing.assert_allclose(target_of(fields, kl_budget=2.0), [[0.5, 0, 0, 0.5]], atol=1e-12)


def test_several_rewards_tilt_by_gdpos_advantages() -> None:
    rng = np.random.default_rng(0)
    fields = {"log_probs_old": -rng.random((3, 4, 2)), "scores": rng.normal(size=(3, 4, 2))}
    weights = (2.0, 0.5)
    gdpo = tpo.objective("gdpo", reward_weights=weights).prepare(tpo.Groups(**fields))
    logits = fields["log_probs_old"].sum(-1) + gdpo.advantages[..., 0]
    q = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    options = {"scale": "each_reward", "reward_weights": weights}
    np.testing.assert_allclose(target_of(fields, **options), q, rtol=1e-9)
    with pytest.raises(ValueError, match="reward_weights has 3 entries and scores 2 rewards"):
        target_of(fields, scale="each_reward", reward_weights=(1.0, 1.0, 1.0))


def test_the_gate_by_hand() -> None:
    # u = (1, -1). First group: the success has .1, the failure .9: χ = (log 10 - log(10/9))/2 = log(9)/2, σ = 3/4.
    # Second: the other way round, 1/4. The gradient at the snapshot is that of the plain objective times the gate.
    old = np.log([[[0.1], [0.9]], [[0.9], [0.1]]])
    fields = {"log_probs_old": old, "scores": np.array([[1.0, 0.0], [1.0, 0.0]])}
    for library in LIBRARIES:
        _, plain, _ = run(library, tpo.objective("tpo", score="ratio"), fields, old)
        gated = tpo.objective("tpo", score="ratio", weight="gate")
        _, c, _ = run(library, gated, fields, old)
        wanted = plain * np.array([0.75, 0.25])[:, None, None]
        np.testing.assert_allclose(c, wanted, atol=1e-12, err_msg=library)


def test_tasks_share_the_loss() -> None:
    # Three informative contexts of tasks 0, 0, 1 with shares 1/4 and 3/4, and one without variance: weights
    # 4·(1/8, 1/8, 3/4, 0) of the mean over four.
    old = np.full((4, 2, 1), -1.0)
    fields = {
        "log_probs_old": old,
        "scores": np.array([[1.0, 0.0], [1.0, 0.0], [1.0, 0.0], [1.0, 1.0]]),
        "tasks": np.array([0, 0, 1, 1]),
    }
    objective = tpo.objective("tpo", task_logits=(0.0, float(np.log(3))))
    for library in LIBRARIES:
        _, c, _ = run(library, objective, fields, old)
        size = 0.8807970780 - 0.5
        wanted = np.array([1 / 8, 1 / 8, 3 / 4, 0]) * size
        np.testing.assert_allclose(c[:, 1, 0], wanted, atol=1e-9, err_msg=library)


@pytest.mark.parametrize("library", LIBRARIES)
def test_eta_is_annealed_by_the_share_of_training_that_is_done(library: str) -> None:
    # eta from 2 to 1/2 in geometric steps: 2, 1 half-way, 1/2. Scores (1, 0): u = ±1, q_0 = σ(2/eta) = σ(1), σ(2), σ(4).
    fields = {
        "log_probs_old": np.full((3, 2, 1), -1.0),
        "scores": np.array([[1.0, 0.0]] * 3),
        "progress": np.array([0.0, 0.5, 1.0]),
    }
    objective = tpo.objective("tpo", eta=2.0, eta_final=0.5)
    _, c, _ = run(library, objective, fields, fields["log_probs_old"])
    q = 1 / (1 + np.exp(-np.array([1.0, 2.0, 4.0])))
    np.testing.assert_allclose(c[:, 0, 0], (0.5 - q) / 3, atol=1e-12)


def test_annealing_needs_to_know_the_progress_and_chooses_eta_alone() -> None:
    group = tpo.Groups(log_probs_old=np.full((1, 2, 1), -1.0), scores=np.array([[1.0, 0.0]]))
    with pytest.raises(ValueError, match="pass progress"):
        tpo.objective("tpo", eta_final=0.5).prepare(group)
    with pytest.raises(ValueError, match="both choose eta"):
        tpo.objective("tpo", eta_final=0.5, kl_budget=0.1)


def test_a_weight_needs_a_target_on_the_side_that_it_scales() -> None:
    """From p_old = (.9, .05, .05) the target without the anchor lowers the success: a weight cannot turn that round."""
    for weight in ("accuracy", "pass@4"):
        with pytest.raises(ValueError, match="without the anchor"):
            tpo.objective("tpo", anchor=False, weight=weight)
        tpo.objective("tpo", anchor=False, weight=weight, score="ratio")

"""What the course in docs/learn states as laws of TPO's target; exact, for random groups."""

import numpy as np
import pytest

import tpo
from tpo.diagnostics import entropy, kl, odds_factor, population_beta, population_gamma

RNG = np.random.default_rng(0)
SHAPE = (200, 6)


def group(eta: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """log p_old, u and q of random groups."""
    log_scores = RNG.normal(scale=2, size=SHAPE)
    log_p = log_scores - np.log(np.exp(log_scores).sum(-1, keepdims=True))
    u = tpo.standardize(RNG.normal(size=SHAPE))
    return log_p, u, tpo.target(log_scores, u, eta)


@pytest.mark.parametrize("eta", [0.3, 1.0, 4.0])
def test_target_is_the_only_maximiser_of_score_minus_kl(eta: float) -> None:
    """Eq. 4: F(r) = E_r[u] - eta KL(r‖p_old) is F(q) - eta KL(r‖q) for every r, and F(q) = eta log Z."""
    log_p, u, q = group(eta)

    def value(r: np.ndarray) -> np.ndarray:
        return (r * u).sum(-1) - eta * (r * (np.log(r) - log_p)).sum(-1)

    r = RNG.dirichlet(np.ones(SHAPE[1]), size=SHAPE[0])
    np.testing.assert_allclose(value(q) - value(r), eta * kl(r, np.log(q)), atol=1e-9)
    normaliser = np.log((np.exp(log_p + u / eta)).sum(-1))
    np.testing.assert_allclose(value(q), eta * normaliser, atol=1e-9)
    assert (value(q) > value(r)).all()
    assert (q > 0).all()


def test_loss_is_the_entropy_of_the_target_plus_the_kl_that_is_left() -> None:
    _, _, q = group(1.0)
    log_scores = RNG.normal(size=SHAPE)
    expected = entropy(np.log(q)) + kl(q, log_scores)
    np.testing.assert_allclose(tpo.loss(log_scores, q), expected.mean())
    np.testing.assert_allclose(tpo.loss(np.log(q), q), entropy(np.log(q)).mean())


def test_gradient_is_bounded_and_is_zero_in_one_direction_of_curvature() -> None:
    """|p - q| <= 1 and sums to 0; the second derivative diag(p) - pp' has the constants as its only kernel."""
    _, _, q = group(0.1)
    log_scores = RNG.normal(scale=20, size=SHAPE)
    c = tpo.coefficients(log_scores, q)
    assert np.abs(c).max() <= 1
    np.testing.assert_allclose(c.sum(-1), 0, atol=1e-12)
    p = q[0]
    curvature = np.linalg.eigvalsh(np.diag(p) - np.outer(p, p))
    np.testing.assert_allclose(curvature[0], 0, atol=1e-12)
    assert (curvature[1:] > 0).all()


def test_target_never_lowers_the_mean_score() -> None:
    log_p, u, q = group(1.0)
    assert ((q - np.exp(log_p)) * u).sum(-1).min() > 0


def test_targets_reached_in_a_row_add_up() -> None:
    """p0·exp((u1 + ... + un)/eta)."""
    log_p, _, _ = group(1.0)
    rounds = [tpo.standardize(RNG.normal(size=SHAPE)) for _ in range(4)]
    at = log_p
    for u in rounds:
        at = np.log(tpo.target(at, u, 2.0))
    np.testing.assert_allclose(np.exp(at), tpo.target(log_p, sum(rounds), 2.0), rtol=1e-9)


@pytest.mark.parametrize("arms", [2, 10])
def test_weight_on_the_gradient_of_p_is_the_derivative_of_an_objective(arms: int) -> None:
    """beta/p integrates to log p (CE), p (PG), log(1 + p) (DG), 2 arcsin sqrt p (GRPO), log(1 + (λ-1)p) (TPO)."""
    climbs = {
        "ce": np.log,
        "pg": lambda p: p,
        "dg": np.log1p,
        "grpo": lambda p: 2 * np.arcsin(np.sqrt(p)),
        "tpo": lambda p: np.log1p((odds_factor(arms) - 1) * p),
    }
    p, step = np.linspace(0.02, 0.98, 25), 1e-6
    for method, objective in climbs.items():
        slope = (objective(p + step) - objective(p - step)) / (2 * step)
        np.testing.assert_allclose(population_beta(method, p, arms) / p, slope, rtol=1e-6)


def test_update_after_a_single_draw() -> None:
    """All actions are the group, with a score of 0 but for the drawn one: only the sign of its advantage counts.

    A success gives beta(p)(e_y - pi), a failure j gamma(pi_j)(pi - e_j).
    """
    arms = SHAPE[1]
    pi = RNG.dirichlet(np.ones(arms), size=SHAPE[0])
    for drawn in range(arms):
        probability, other = pi[:, drawn : drawn + 1], np.eye(arms)[drawn] - pi
        for advantage, expected in (
            (0.2, population_beta("tpo", probability, arms) * other),
            (-7.0, -population_gamma(probability, arms) * other),
        ):
            u = tpo.standardize(advantage * np.eye(arms)[[drawn]] * np.ones(SHAPE))
            np.testing.assert_allclose(tpo.target(np.log(pi), u) - pi, expected, atol=1e-12)


ONE_OF_FOUR = tpo.target(np.zeros(4), tpo.standardize(np.eye(4)[0]))
"""w of one success among four equally likely candidates."""


def pulls(divergence: str, policies: np.ndarray) -> np.ndarray:
    """[N, 4] -dD/ds at each policy, with the target `ONE_OF_FOUR`."""
    objective = tpo.objective("lpo", divergence=divergence, score="sum")
    at, scores = np.log(policies)[..., None], np.tile(np.eye(4)[0], (len(policies), 1))
    groups = tpo.Groups(log_probs_old=np.full(at.shape, np.log(0.25)), scores=scores)
    return -len(policies) * objective.coefficients(at, objective.prepare(groups))[..., 0]


@pytest.mark.parametrize("divergence", ["forward", "reverse", "js", "alpha"])
def test_every_projection_is_at_rest_at_the_target(divergence: str) -> None:
    np.testing.assert_allclose(pulls(divergence, ONE_OF_FOUR[None]), 0, atol=1e-12)
    away = pulls(divergence, RNG.dirichlet(np.ones(4), size=20))
    assert (np.abs(away).max(-1) > 1e-6).all()


def test_only_the_forward_projection_pulls_what_is_lost() -> None:
    """At p -> 0 the pull on the success is w - p; it vanishes like 2 sqrt(wp), -p log p and half of that.

    The last two have terms of order p beside p log p. They drop out of pull/p at one p less that at another.
    """
    p = np.array([1e-6, 1e-8])
    lost = np.stack([p, *[(1 - p) / 3] * 3], axis=-1)
    pull = {name: pulls(name, lost)[:, 0] for name in ("forward", "alpha", "reverse", "js")}
    w = ONE_OF_FOUR[0]
    np.testing.assert_allclose(pull["forward"], w - p)
    np.testing.assert_allclose(pull["alpha"], 2 * np.sqrt(w * p), rtol=2e-3)
    for name, share in (("reverse", 1.0), ("js", 0.5)):
        growth = np.diff(pull[name] / p) / -np.diff(np.log(p))
        np.testing.assert_allclose(growth, share, rtol=1e-4)


def test_reverse_projection_starts_as_a_policy_gradient() -> None:
    """On-policy, with uniform p: -u/(K eta), the push of Group PG over K eta."""
    scores = RNG.normal(size=(3, 5))
    log_p = np.full((3, 5, 1), np.log(0.2))
    objective = tpo.objective("lpo", divergence="reverse", score="sum", eta=2.0)
    prepared = objective.prepare(tpo.Groups(log_probs_old=log_p, scores=scores))
    c = 3 * objective.coefficients(log_p, prepared)[..., 0]  # without the mean over 3 contexts
    np.testing.assert_allclose(c, -tpo.standardize(scores) / 10, atol=1e-12)


def test_forward_lpo_within_its_clip_is_tpo_on_mean_ratios() -> None:
    """Off-policy too, while every token's ratio is within 1 ± .2; beyond it LPO drops the token."""
    old = -RNG.exponential(size=(3, 5, 8))
    groups = tpo.Groups(log_probs_old=old, scores=RNG.normal(size=(3, 5)))
    both = [tpo.objective("lpo"), tpo.objective("tpo", score="mean_ratio")]
    for moved, equal in ((0.15, True), (0.6, False)):
        new = old + RNG.uniform(-moved, moved, size=old.shape)
        c, expected = (o.coefficients(new, o.prepare(groups)) for o in both)
        assert np.allclose(c, expected, atol=1e-12) == equal


@pytest.mark.parametrize("eta", [0.5, 1.0, 3.0])
def test_on_pairs_tpo_is_dpo_with_smoothed_labels(eta: float) -> None:
    """-(1 - ε) log σ(Δ) - ε log σ(-Δ), ε = σ(-2/eta), with its minimum at Δ = 2/eta."""
    objective = tpo.objective("tpo", score="ratio", eta=eta)
    reference = RNG.normal(size=(1, 2, 3))
    prepared = objective.prepare(tpo.Groups(log_probs_old=reference, scores=np.array([[1.0, 0]])))
    smoothing = 1 / (1 + np.exp(2 / eta))
    for delta in (-3.0, 0.4, 5.0):
        moved = reference + np.array([delta / 3, 0.0])[:, None]  # winner's log-ratio sums to delta
        agree, differ = -np.log1p(np.exp(-delta)), -np.log1p(np.exp(delta))
        expected = -(1 - smoothing) * agree - smoothing * differ
        np.testing.assert_allclose(objective.loss(moved, prepared), expected)
    at_rest = reference + np.array([2 / eta / 3, 0.0])[:, None]
    np.testing.assert_allclose(objective.coefficients(at_rest, prepared), 0, atol=1e-12)

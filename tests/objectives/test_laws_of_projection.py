"""Laws of TPO's target, its fit and the KL estimators, for random groups; NumPy alone."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

import tpo
from support.random_groups import SEEDS, Batch, batches, close, coefficients, softmax
from tpo.diagnostics import kl
from tpo.objectives import k1, k2, k3

ETAS = st.floats(0.1, 10)
SINGLE = batches(T=1)
"""Groups whose log-scores are the log-probs of one token."""


def tilt(batch: Batch, eta: float = 1.0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """p_old, u and q of a batch."""
    old, u = batch.old[..., 0], tpo.standardize(batch.scores)
    return softmax(old), u, tpo.target(old, u, eta)


def pairs(x: np.ndarray) -> np.ndarray:
    """[B, K, K] x_i - x_j."""
    return x[:, :, None] - x[:, None, :]


@given(SINGLE, ETAS)
def test_a_target_is_a_distribution(batch: Batch, eta: float) -> None:
    _, _, q = tilt(batch, eta)
    assert (q > 0).all()
    close(q.sum(-1), 1)


@given(SINGLE, ETAS)
def test_the_target_tilts_the_odds_of_two_candidates_by_their_scores(
    batch: Batch, eta: float
) -> None:
    p, u, q = tilt(batch, eta)
    close(pairs(np.log(q / p)), pairs(u) / eta, 1e-8)


@given(SINGLE, ETAS)
def test_a_higher_score_has_a_higher_target_ratio_and_an_equal_one_an_equal_ratio(
    batch: Batch, eta: float
) -> None:
    p, _, q = tilt(batch, eta)
    gap, ratio = pairs(batch.scores), pairs(np.log(q / p))
    assert (ratio[gap > 0] > 0).all()
    close(ratio[gap == 0], 0)


@given(SINGLE, st.floats(-1e4, 1e4), st.floats(-10, 10))
def test_constants_added_to_log_scores_or_scores_do_not_move_the_target(
    batch: Batch, far: float, shift: float
) -> None:
    _, u, q = tilt(batch)
    close(tpo.target(batch.old[..., 0] + far, u + shift), q, 1e-8)


@given(SINGLE)
def test_the_target_does_not_depend_on_the_order_of_candidates(batch: Batch) -> None:
    _, u, q = tilt(batch)
    order = batch.rng.permutation(u.shape[1])
    close(tpo.target(batch.old[:, order, 0], u[:, order]), q[:, order])


@given(batches(T=1, masks=True), ETAS)
def test_the_target_of_valid_candidates_is_that_of_the_group_without_the_others(
    batch: Batch, eta: float
) -> None:
    valid = batch.fields["valid"]
    u = tpo.standardize(batch.scores, valid)
    q = tpo.target(batch.old[..., 0], u, eta, valid)
    for row, old, tilted, kept in zip(q, batch.old[..., 0], u, valid, strict=True):
        close(row[kept], tpo.target(old[kept], tilted[kept], eta))
        assert not row[~kept].any()


@given(SINGLE)
def test_a_large_eta_keeps_the_policy_and_a_small_one_takes_the_best(batch: Batch) -> None:
    p, u, _ = tilt(batch)
    close(tilt(batch, 1e9)[2], p, 1e-7)
    best = u == u.max(-1, keepdims=True)
    expected = np.where(best, p, 0) / np.where(best, p, 0).sum(-1, keepdims=True)
    close(tilt(batch, 1e-4)[2], expected, 1e-6)


@given(SINGLE, ETAS)
def test_two_tilts_at_twice_the_temperature_are_one(batch: Batch, eta: float) -> None:
    _, u, q = tilt(batch, eta)
    halfway = np.log(tilt(batch, 2 * eta)[2])
    close(tpo.target(halfway, u, 2 * eta), q)


@given(SINGLE, ETAS)
def test_the_opposite_tilt_leads_back(batch: Batch, eta: float) -> None:
    p, u, q = tilt(batch, eta)
    close(tpo.target(np.log(q), -u, eta), p)


@given(SINGLE, ETAS)
def test_no_distribution_has_more_score_minus_kl_than_the_target(batch: Batch, eta: float) -> None:
    """Eq. 4: F(r) = E_r[u] - eta KL(r‖p_old) is F(q) - eta KL(r‖q)."""
    p, u, q = tilt(batch, eta)
    r = batch.rng.dirichlet(np.ones(u.shape[1]), size=len(u)) + 1e-12

    def value(x: np.ndarray) -> np.ndarray:
        return (x * u).sum(-1) - eta * (x * np.log(x / p)).sum(-1)

    r = r / r.sum(-1, keepdims=True)
    close(value(q) - value(r), eta * (r * np.log(r / q)).sum(-1), 1e-8)


@given(SINGLE, ETAS, ETAS)
def test_a_smaller_eta_means_more_score_and_more_kl(batch: Batch, one: float, other: float) -> None:
    small, large = sorted((one, other))
    old = batch.old[..., 0]
    sharp, soft = tilt(batch, small)[2], tilt(batch, large)[2]
    assert ((sharp - soft) * batch.scores).sum(-1).min() >= -1e-9
    assert (kl(sharp, old) - kl(soft, old)).min() >= -1e-9
    assert ((soft - softmax(old)) * batch.scores).sum(-1).min() > 0


@given(SINGLE)
def test_the_loss_is_the_entropy_of_the_target_plus_a_kl(batch: Batch) -> None:
    _, _, q = tilt(batch)
    new = batch.new[..., 0]
    entropy = -(q * np.log(q)).sum(-1)
    left = (q * np.log(q / softmax(new))).sum(-1)
    close(tpo.loss(new, q), (entropy + left).mean())
    assert tpo.loss(new, q) >= entropy.mean() - 1e-12
    close(tpo.loss(np.log(q), q), entropy.mean())


@given(SINGLE, st.floats(0, 1))
def test_the_loss_is_convex_in_log_scores(batch: Batch, share: float) -> None:
    _, _, q = tilt(batch)
    one, other = batch.new[..., 0], 5 * batch.rng.normal(size=q.shape)
    between = tpo.loss(share * one + (1 - share) * other, q)
    assert between <= share * tpo.loss(one, q) + (1 - share) * tpo.loss(other, q) + 1e-9


@given(SINGLE, st.floats(-100, 100))
def test_a_constant_added_to_log_scores_leaves_the_loss(batch: Batch, shift: float) -> None:
    _, _, q = tilt(batch)
    new = batch.new[..., 0]
    close(tpo.loss(new + shift, q), tpo.loss(new, q))
    close(tpo.coefficients(new + shift, q), tpo.coefficients(new, q))


@given(SINGLE)
def test_coefficients_lie_within_1_and_sum_to_0(batch: Batch) -> None:
    _, _, q = tilt(batch, 0.1)
    c = tpo.coefficients(20 * batch.new[..., 0], q)
    assert (np.abs(c) <= 1).all()
    close(c.sum(-1), 0)


@given(SINGLE)
def test_coefficients_vanish_at_the_target_and_there_alone(batch: Batch) -> None:
    _, _, q = tilt(batch)
    close(tpo.coefficients(np.log(q), q), 0)
    away = np.log(q) + np.eye(q.shape[1])[0]
    assert (np.abs(tpo.coefficients(away, q)).max(-1) > 1e-9).all()


@given(SINGLE)
def test_a_full_step_along_the_coefficients_lowers_the_loss(batch: Batch) -> None:
    """The curvature of log-softmax is at most 1/2, so a step of 1 cannot overshoot."""
    _, _, q = tilt(batch)
    new = batch.new[..., 0]
    for row, goal in zip(new, q, strict=True):
        c = tpo.coefficients(row, goal)
        assert tpo.loss(row - c, goal) <= tpo.loss(row, goal) - 0.5 * (c**2).sum() + 1e-12


@given(SINGLE)
def test_the_loss_of_a_batch_is_the_weighted_mean_of_its_parts(batch: Batch) -> None:
    _, _, q = tilt(batch)
    new, at = batch.new[..., 0], len(q) // 2
    parts = [(len(part), tpo.loss(x, part)) for x, part in ((new[:at], q[:at]), (new[at:], q[at:]))]
    close(tpo.loss(new, q), sum(n * loss for n, loss in parts) / len(q))


@given(batches(T=1, masks=True))
def test_masked_candidates_are_neither_in_the_loss_nor_in_the_coefficients(batch: Batch) -> None:
    valid, new = batch.fields["valid"], batch.new[..., 0]
    q = tpo.target(batch.old[..., 0], tpo.standardize(batch.scores, valid), mask=valid)
    c = tpo.coefficients(new, q, valid)
    losses = []
    for row, x, goal, kept in zip(c, new, q, valid, strict=True):
        close(row[kept], tpo.coefficients(x[kept], goal[kept]))
        assert not row[~kept].any()
        losses.append(tpo.loss(x[kept], goal[kept]))
    close(tpo.loss(new, q, valid), np.mean(losses))


@given(batches())
def test_pooled_ties_leave_the_odds_within_an_outcome_alone(batch: Batch) -> None:
    """c/p is equal for candidates of one score, so that a step changes their log-scores alike."""
    c = coefficients("tpo_outcomes", batch).sum(-1)
    p = softmax(batch.new.sum(-1))
    close(pairs(c / p)[pairs(batch.scores) == 0], 0, 1e-8)


@given(batches(T=1))
def test_pooled_ties_fit_the_share_of_each_score(batch: Batch) -> None:
    """The coefficients of an outcome's candidates sum to P - Q, as with anchored ties."""
    same = pairs(batch.scores) == 0
    pooled, anchored = (coefficients(name, batch)[..., 0] for name in ("tpo_outcomes", "tpo"))
    close((same * pooled[:, None, :]).sum(-1), (same * anchored[:, None, :]).sum(-1))


@given(batches(("binary",), T=1))
def test_the_known_answers_share_the_target_of_cross_entropy(batch: Batch) -> None:
    q = batch.scores / batch.scores.sum(-1, keepdims=True)
    expected = (softmax(batch.new[..., 0]) - q) / len(q)
    close(coefficients("ce", batch)[..., 0], expected)


@given(SEEDS, st.floats(0.01, 5))
def test_kl_estimators_are_0_where_the_policies_agree_and_k2_and_k3_above_it_elsewhere(
    seed: int, scale: float
) -> None:
    pi, ref = scale * np.random.default_rng(seed).normal(size=(2, 7))
    for estimator in (k1, k2, k3):
        assert not estimator(pi, pi).any()
    assert (k2(pi, ref) > 0).all()
    assert (k3(pi, ref) > 0).all()


@given(SEEDS)
def test_k1_changes_its_sign_and_k2_nothing_when_the_policies_change_places(seed: int) -> None:
    pi, ref = np.random.default_rng(seed).normal(size=(2, 7))
    close(k1(ref, pi), -k1(pi, ref))
    close(k2(ref, pi), k2(pi, ref))
    close(k3(pi, ref) + k3(ref, pi), 2 * np.cosh(pi - ref) - 2)


@given(SEEDS)
def test_near_the_reference_k3_is_k2(seed: int) -> None:
    """k3 - k2 is -d³/6 to third order."""
    ref, d = np.random.default_rng(seed).normal(size=(2, 7))
    d = 1e-3 * d
    np.testing.assert_allclose(k3(ref + d, ref) - k2(ref + d, ref), -(d**3) / 6, atol=1e-11)

"""Objectives that treat a few tokens of the batch, or of a sequence, differently: which ones, and how."""

import numpy as np
import pytest

import tpo
from support.libraries import LIBRARIES, run


def flat(x: list[float]) -> np.ndarray:
    """[1, K, 1] one context of one-token candidates."""
    return np.array(x)[None, :, None]


FOUR = {"log_probs_old": np.log(flat([0.2, 0.2, 0.2, 0.2])), "scores": np.array([[1.0, 0, 1, 0]])}


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize(
    ("log_ratios", "kept"),
    [
        ([0.1, 0.0, -0.1, 0.2], [1, 1, 1, 1]),  # mean square .015
        ([0.1, 0.0, -0.1, 1.0], [1, 1, 1, 0]),  # .255, then .0067
        (
            [0.3, 0.3, 0.0, -0.1],
            [0, 0, 1, 1],
        ),  # .0475; of three with one of the .3: .0333, but both are alike
        ([0.5, -0.5, 0.6, 0.7], [0, 0, 0, 0]),  # none is below .04
    ],
)
def test_m2po_drops_the_farthest_tokens(
    library: str, log_ratios: list[float], kept: list[int]
) -> None:
    _, c, _ = run(library, tpo.objective("m2po"), FOUR, FOUR["log_probs_old"] + flat(log_ratios))
    expected = -np.exp(log_ratios) * np.array([1, -1, 1, -1]) / 4 * kept
    np.testing.assert_allclose(c[0, :, 0], expected, atol=1e-12)


@pytest.mark.parametrize("library", LIBRARIES)
def test_m2po_counts_the_tokens_of_the_batch(library: str) -> None:
    """Near tokens of another context make room for a far one."""
    two = {name: np.concatenate([x, x]) for name, x in FOUR.items()}
    near = np.zeros((1, 4, 1))
    alone = FOUR["log_probs_old"] + flat([0.4, 0.0, 0.0, 0.3])  # .0625; without .4: .03
    joint = np.concatenate([alone, FOUR["log_probs_old"] + near])  # .03125
    assert run(library, tpo.objective("m2po"), FOUR, alone)[1][0, 0, 0] == 0
    assert run(library, tpo.objective("m2po"), two, joint)[1][0, 0, 0] != 0


@pytest.mark.parametrize("library", LIBRARIES)
def test_clip_cov_drops_what_covaries_within_its_range(library: str) -> None:
    # log pi = -1, -2, -3, -6, mean -3; u = 1, -1, 1, -1: c = 2, -1, 0, 3. Not PPO's: all ratios are 1.
    group = {**FOUR, "log_probs_old": flat([-1.0, -2, -3, -6])}
    for low, high, dropped in ((1.0, 5.0, 3), (1.0, 2.5, 0), (4.0, 5.0, None)):
        objective = tpo.objective("clip_cov", low=low, high=high, share=0.25)
        _, c, _ = run(library, objective, group, group["log_probs_old"])
        expected = np.array([-0.25, 0.25, -0.25, 0.25])
        if dropped is not None:
            expected[dropped] = 0
        np.testing.assert_allclose(c[0, :, 0], expected, atol=1e-12)


@pytest.mark.parametrize("library", LIBRARIES)
def test_kl_cov_penalises_the_share_with_the_largest_covariance(library: str) -> None:
    # c as above, at ratios e^.1: half of the tokens, the last and the first, get .5/4 on top of -r u/4.
    new = flat([-1.0, -2, -3, -6])
    group = {**FOUR, "log_probs_old": new - 0.1}
    objective = tpo.objective("kl_cov", share=0.5, penalty=0.5)
    loss, c, _ = run(library, objective, group, new)
    r = np.exp(0.1)
    np.testing.assert_allclose(c[0, :, 0], np.array([-r + 0.5, r, -r, r + 0.5]) / 4, atol=1e-12)
    np.testing.assert_allclose(loss, 2 * 0.5 * 0.1 / 4, atol=1e-12)


def fipo_influence(log_ratios: list[float], score: float, **options: float) -> np.ndarray:
    """[T] how FIPO scales the push of a candidate's tokens, against DAPO's without clip bounds."""
    old = np.full((1, 2, len(log_ratios)), -1.0)
    group = {"log_probs_old": old, "scores": np.array([[score, 1 - score]])}
    new = old.copy()
    new[0, 0] += log_ratios
    wide = {"clip_low": 0.999, "clip_high": 1e6}
    _, c, _ = run("numpy", tpo.objective("fipo", **wide, **options), group, new)
    _, base, _ = run("numpy", tpo.objective("dapo", **wide), group, new)
    return c[0, 0] / base[0, 0]


def test_fipo_looks_ahead() -> None:
    """A token gains if what follows became more probable, half as much for each token of distance here."""
    found = fipo_influence([0.0, 0.0, 0.1, -0.2], 1.0, half_life=1.0, influence_low=0.5)
    # F = .1/4 - .2/8, .1/2 - .2/4, .1 - .1, -.2
    np.testing.assert_allclose(found, np.exp([0.0, 0.0, 0.0, -0.2]), rtol=1e-9)


def test_fipo_bounds_its_influence() -> None:
    found = fipo_influence([0.5, 0.5, -0.5], 1.0, half_life=1.0)
    np.testing.assert_allclose(found, [1.2, 1.2, 1], rtol=1e-9)
    # A failure whose token has a ratio above 4: between .8 and 1. Above 10 it is not counted, nor pushed.
    np.testing.assert_allclose(fipo_influence([1.5, 0.1], 0.0), [1.0, 1.1051709], rtol=1e-6)
    np.testing.assert_allclose(fipo_influence([2.4, 0.1], 0.0), [0.0, 1.1051709], rtol=1e-6)


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("name", ["ppo", "grpo"])
def test_a_dual_clip_bounds_the_loss_of_a_failure(library: str, name: str) -> None:
    # Ratios e, 4, 1 and 4: a failure is pushed down while r <= 3, a success beyond 1.2 is not pushed at all.
    new = FOUR["log_probs_old"] + np.log(flat([1.0, 4.0, 1.0, 2.0]))
    options = {"grpo": {"beta": 0.0}, "ppo": {"advantage": "z"}}[name]
    plain, c, _ = run(library, tpo.objective(name, **options), FOUR, new)
    dual, c_2, _ = run(library, tpo.objective(name, dual_clip=3.0, **options), FOUR, new)
    np.testing.assert_allclose(c[0, :, 0], np.array([-1, 4, -1, 2]) / 4, atol=1e-12)
    np.testing.assert_allclose(c_2[0, :, 0], np.array([-1, 0, -1, 2]) / 4, atol=1e-12)
    np.testing.assert_allclose([plain, dual], [4 / 4, 3 / 4], atol=1e-12)


@pytest.mark.parametrize("library", LIBRARIES)
def test_gpg_scales_up_for_groups_without_a_push(library: str) -> None:
    # Two of three groups are informative: 3/2 of -(±.5)/12 on each token, and none for the third.
    scores = np.array([[1.0, 0, 1, 0], [0, 0, 0, 0], [0, 1, 0, 1]])
    old = np.full((3, 4, 1), -1.0)
    _, c, _ = run(library, tpo.objective("gpg"), {"log_probs_old": old, "scores": scores}, old)
    expected = -1.5 * 0.5 / 12 * np.array([[1, -1, 1, -1], [0, 0, 0, 0], [-1, 1, -1, 1]])
    np.testing.assert_allclose(c[..., 0], expected, atol=1e-12)


@pytest.mark.parametrize("library", LIBRARIES)
def test_pass_at_k_pushes_the_best_alone(library: str) -> None:
    # .9 leads .6 by .3; two of 1 lead nobody; a candidate that does not count is no rival. sigma of (.9, .6, 0) is .3741657.
    scores = np.array([[0.9, 0.6, 0.0], [1.0, 1.0, 0.0], [0.5, 0.0, 1.0]])
    group = {"log_probs_old": np.full((3, 3, 1), -1.0), "scores": scores}
    group["valid"] = np.array([[True, True, True], [True, True, True], [True, True, False]])
    for options, lead in (({}, (0.3, 0.5)), ({"divide_by_sigma": True}, (0.8017837, 2.0))):
        objective = tpo.objective("grpo_passk", **options)
        _, c, _ = run(library, objective, group, group["log_probs_old"])
        expected = np.zeros((3, 3))
        expected[0, 0], expected[2, 0] = (-x / 3 for x in lead)
        np.testing.assert_allclose(c[..., 0], expected, atol=1e-7)


def test_pass_at_k_is_the_gradient_of_the_expected_best() -> None:
    """Exactly, over all groups of two of a policy with three actions."""
    p, reward = np.array([0.5, 0.3, 0.2]), np.array([0.0, 0.4, 1.0])

    def expected_best(p: np.ndarray) -> float:
        return sum(p[i] * p[j] * max(reward[i], reward[j]) for i in range(3) for j in range(3))

    found = np.zeros(3)
    for i in range(3):
        for j in range(3):
            group = {
                "log_probs_old": np.log(p[[i, j]])[None, :, None],
                "scores": reward[[i, j]][None],
            }
            _, c, _ = run("numpy", tpo.objective("grpo_passk"), group, group["log_probs_old"])
            for k, a in enumerate((i, j)):
                found += -c[0, k, 0] * p[i] * p[j] * (np.eye(3)[a] - p)  # d log pi_a / d logits
    slope = np.zeros(3)
    for a in range(3):
        moved = [p * np.exp(h * np.eye(3)[a]) for h in (1e-6, -1e-6)]
        up, down = (expected_best(q / q.sum()) for q in moved)
        slope[a] = (up - down) / 2e-6
    np.testing.assert_allclose(found, slope, atol=1e-8)


@pytest.mark.parametrize("value", [0.5, 1.0])
def test_a_dual_clip_at_or_below_one_would_stop_every_failure(value: float) -> None:
    for name in ("ppo", "grpo"):
        with pytest.raises(ValueError, match="0 or a number above 1"):
            tpo.objective(name, dual_clip=value)

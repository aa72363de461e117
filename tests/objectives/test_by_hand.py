"""Numbers worked out by hand, for every objective, on every library.

The common example: one context, two candidates of two tokens, scores (1, 0), every old token at probability 1/2,
and ratios pi/pi_old of (1.1, 1.3) for the first candidate and (0.9, 0.7) for the second. Hence
    log pi = log .55, log .65 | log .45, log .35 = -.5978370, -.4307829 | -.7985077, -1.0498221
    ell    = log .3575, log .1575                = -1.0286199, -1.8483298
    mean score 1/2, sigma 1/2, so u = (1, -1) and R - mean = (.5, -.5)
    k3 = 1/r + log r - 1 = .0044011, .0315950 | .0057506, .0718965, together .1136432
"""

import numpy as np
import pytest

import tpo
from support.hand_numbers import CASES, GROUP, NEW, OLD, OPTIONED, VALUES
from support.libraries import LIBRARIES, run


def test_every_objective_has_a_number() -> None:
    assert set(CASES) | set(OPTIONED) | {"reps"} == set(tpo.list_objectives())


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("name", CASES)
def test_defaults(name: str, library: str) -> None:
    loss, coefficients = CASES[name]
    got, c, _ = run(library, tpo.objective(name), GROUP, NEW)
    np.testing.assert_allclose(got, loss, rtol=0, atol=2e-9)
    np.testing.assert_allclose(c.ravel(), coefficients, rtol=0, atol=1e-9)


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("name", OPTIONED)
def test_options(name: str, library: str) -> None:
    options, extra, loss = OPTIONED[name]
    got, c, gradient = run(library, tpo.objective(name, **options), {**GROUP, **extra}, NEW)
    np.testing.assert_allclose(got, loss, rtol=0, atol=2e-9)
    if gradient is not None:
        np.testing.assert_allclose(c, gradient, rtol=0, atol=1e-12)


@pytest.mark.parametrize("library", LIBRARIES)
def test_reps_weighs_the_whole_batch(library: str) -> None:
    # A = (.5, -.5 | 0, 0). At eta = 1 the weights are (e^.5, e^-.5, 1, 1)/4.2552519 = (.3874556, .1425370, .2350037, .2350037),
    # and their KL from uniform is .0605997; both contexts have the ell of the common example.
    fields = {
        "log_probs_old": np.tile(OLD, (2, 1, 1)),
        "scores": np.array([[1.0, 0.0], [1.0, 1.0]]),
    }
    objective = tpo.objective("reps", epsilon=0.06059972396)
    loss, c, _ = run(library, objective, fields, np.tile(NEW, (2, 1, 1)))
    np.testing.assert_allclose(loss, 1.3380937422, atol=1e-8)
    np.testing.assert_allclose(
        -c[..., 0].ravel(), [0.3874556, 0.1425370, 0.2350037, 0.2350037], atol=1e-6
    )


@pytest.mark.parametrize("library", LIBRARIES)
def test_the_anchor(library: str) -> None:
    # p_old = (.8, .2), scores (0, 1), u = (-1, 1): q_1 = .2e/(.8/e + .2e) = .6487856; without p_old e/(e + 1/e) = .8807971.
    # At the snapshot L = -q_0 log .8 - q_1 log .2.
    fields = {"log_probs_old": np.log([[[0.8], [0.2]]]), "scores": np.array([[0.0, 1.0]])}
    for name, q, expected in (
        ("tpo", 0.6487856443, 1.1225514316),
        ("tpo_no_anchor", 0.8807970780, 1.4441875738),
    ):
        loss, c, _ = run(library, tpo.objective(name), fields, fields["log_probs_old"])
        np.testing.assert_allclose(loss, expected, atol=1e-9)
        np.testing.assert_allclose(c.ravel(), [q - 0.2, 0.2 - q], atol=1e-9)


@pytest.mark.parametrize("library", LIBRARIES)
def test_pooled_ties_fit_outcomes(library: str) -> None:
    # Scores (1, 0, 0) from p_old = (.2, .5, .3): u = (√2, -1/√2, -1/√2), Q of the winner .2e^√2/(.2e^√2 + .8/e^(1/√2)) =
    # .6759072. At p = (.4, .5, .1): L = -Q log .4 - (1 - Q) log .6, c = .4 - Q, then p(1 - (1 - Q)/.6) for .5 and .1.
    fields = {
        "log_probs_old": np.log([[[0.2], [0.5], [0.3]]]),
        "scores": np.array([[1.0, 0.0, 0.0]]),
    }
    new = np.log([[[0.4], [0.5], [0.1]]])
    loss, c, gradient = run(library, tpo.objective("tpo_outcomes"), fields, new)
    Q = 0.2 * np.exp(2**0.5) / (0.2 * np.exp(2**0.5) + 0.8 * np.exp(-(0.5**0.5)))
    np.testing.assert_allclose(loss, -Q * np.log(0.4) - (1 - Q) * np.log(0.6), atol=1e-9)
    expected = [0.4 - Q, 0.5 * (1 - (1 - Q) / 0.6), 0.1 * (1 - (1 - Q) / 0.6)]
    np.testing.assert_allclose(c.ravel(), expected, atol=1e-9)
    if gradient is not None:
        np.testing.assert_allclose(gradient, c, atol=1e-9)


@pytest.mark.parametrize("library", LIBRARIES)
def test_gdpo_adds_standardised_rewards(library: str) -> None:
    # Weights (1, .5). Context 0: z = ±1 and ∓1, sum ±.5; context 1: ±1 and ±1, sum ±1.5. Batch sigma √1.25 = 1.1180340,
    # so A = (.4472136, -.4472136 | 1.3416408, -1.3416408). On-policy, no KL: dL/dlog pi = -A/(B·K·T).
    scores = np.array([[[1.0, 0.0], [0.0, 1.0]], [[1.0, 1.0], [0.0, 0.0]]])
    fields = {"log_probs_old": np.tile(OLD, (2, 1, 1)), "scores": scores}
    objective = tpo.objective("gdpo", reward_weights=(1.0, 0.5))
    _, c, _ = run(library, objective, fields, fields["log_probs_old"])
    expected = [-0.4472135955, 0.4472135955, -1.3416407865, 1.3416407865]
    np.testing.assert_allclose(8 * c[..., 1].ravel(), expected, atol=1e-9)


@pytest.mark.parametrize("library", LIBRARIES)
def test_mt_grpo_follows_the_task_weights(library: str) -> None:
    # Task 0 has the common example, L = -.15 without KL. Task 1 has the scores the other way round:
    # -¼(-1.1 - 1.3 + .9 + .7) = .2. z = softmax(log 3, 0) = (.75, .25): -.1125 + .05. A third, constant context is left out.
    fields = {
        "log_probs_old": np.tile(OLD, (3, 1, 1)),
        "scores": np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]),
        "tasks": np.array([0, 1, 1]),
    }
    objective = tpo.objective("mt_grpo", task_logits=(float(np.log(3.0)), 0.0), beta=0.0)
    loss, _, _ = run(library, objective, fields, np.tile(NEW, (3, 1, 1)))
    np.testing.assert_allclose(loss, -0.0625, atol=1e-9)


@pytest.mark.parametrize("library", LIBRARIES)
def test_reinforce_pp_takes_the_kl_into_the_reward(library: str) -> None:
    # A reference .1 below the snapshot: k1 = .1 a token, beta .01. Returns .998, .999 | -.002, -.001, mean .4985,
    # deviations .4995, .5005 | -.5005, -.4995, sigma √(.24950025/2 + .25050025/2) = .50000025.
    fields = {**GROUP, "log_probs_ref": OLD - 0.1}
    _, c, _ = run(library, tpo.objective("reinforce_pp"), fields, OLD)
    expected = np.array([0.4995, 0.5005, -0.5005, -0.4995]) / 0.50000025 / 4
    np.testing.assert_allclose(-c.ravel(), expected, atol=1e-8)


@pytest.mark.parametrize("library", LIBRARIES)
def test_dapo_counts_only_the_tokens_of_informative_groups(library: str) -> None:
    # The constant second context adds nothing, to the sum or to the count: still -.17.
    fields = {
        "log_probs_old": np.tile(OLD, (2, 1, 1)),
        "scores": np.array([[1.0, 0.0], [0.0, 0.0]]),
    }
    loss, c, _ = run(library, tpo.objective("dapo"), fields, np.tile(NEW, (2, 1, 1)))
    np.testing.assert_allclose(loss, -0.17, atol=1e-9)
    assert not c[1].any()


@pytest.mark.parametrize("library", LIBRARIES)
def test_grpo_masked_drops_the_kl_of_constant_groups(library: str) -> None:
    # Two contexts, the second constant. grpo: (-.1488636 + .0011364)/2; grpo_masked: the first one's loss alone.
    fields = {
        "log_probs_old": np.tile(OLD, (2, 1, 1)),
        "scores": np.array([[1.0, 0.0], [0.0, 0.0]]),
    }
    new = np.tile(NEW, (2, 1, 1))
    plain, _, _ = run(library, tpo.objective("grpo"), fields, new)
    dropped, _, _ = run(library, tpo.objective("grpo_masked"), fields, new)
    np.testing.assert_allclose(plain, (-0.1488635680 + 0.0011364320) / 2, atol=1e-9)
    np.testing.assert_allclose(dropped, -0.1488635680, atol=1e-9)


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize(
    ("name", "options", "expected"),
    [
        # A = ±(.7 + .1); each token weighs 1/2.
        ("rloo", {}, [-0.4, -0.4, 0.4, 0.4]),
        # A = .7 - .25, -.1 - .25
        ("remax", {}, [-0.225, -0.225, 0.175, 0.175]),
        # To go: 1 - .5(.6, .4) | -.5(.2, .3) = .7, .8 | -.1, -.15, less .3 and .325; the second ratios are clipped.
        ("ppo", {"kl_in_reward": True}, [-0.55 * 0.4, 0, 0.45 * 0.4, 0]),
        # Rewards -.1, .8 | .05, -.15: δ = .1, .2 | .25, -.75, and A_0 = δ_0 + .95 δ_1 = .29 | -.4625.
        ("ppo", {"kl_in_reward": True, "advantage": "gae"}, [-0.55 * 0.29, 0, 0.45 * 0.4625, 0]),
        ("ppo", {"kl_in_reward": True, "advantage": "leave_one_out"}, [-0.55 * 0.8, 0, 0.45 * 0.8, 0]),
    ],
)  # fmt: skip
def test_the_kl_inside_the_reward(
    library: str, name: str, options: dict[str, object], expected: list[float]
) -> None:
    # log(pi_old/pi_ref) = .2, .4 | -.1, .3 and beta = .5: the scores 1, 0 become 1 - .3 = .7 and 0 - .1 = -.1.
    fields = {
        **GROUP,
        "log_probs_ref": OLD - np.array([[[0.2, 0.4], [-0.1, 0.3]]]),
        "baseline": np.array([0.25]),
        "values": VALUES,
    }
    _, c, gradient = run(library, tpo.objective(name, beta=0.5, **options), fields, NEW)
    np.testing.assert_allclose(c.ravel(), expected, atol=1e-9)
    if gradient is not None:
        np.testing.assert_allclose(gradient, c, atol=1e-9)


@pytest.mark.parametrize("library", LIBRARIES)
def test_corrections(library: str) -> None:
    # pi_train/pi_infer = (1, 3 | .4, 6). TIS at 2: factors 1, 2 | .4, 2. IcePop on [.5, 5]: 1, 1 | 0, 0.
    # Group PG's coefficients are (-1, -1 | 1, 1).
    ratios = np.array([[[1.0, 3.0], [0.4, 6.0]]])
    fields = {**GROUP, "log_probs_rollout": OLD - np.log(ratios)}
    plain = tpo.objective("group_pg")
    loss, _, _ = run(library, plain, fields, NEW)
    for corrected, factors in (
        (tpo.objectives.tis(plain, cap=2.0), [1, 2, 0.4, 2]),
        (tpo.objectives.icepop(plain), [1, 1, 0, 0]),
        (tpo.objectives.tis(tpo.objectives.icepop(plain), cap=2.0), [1, 2, 0, 0]),
    ):
        value, c, gradient = run(library, corrected, fields, NEW)
        np.testing.assert_allclose(value, loss, atol=1e-12)
        np.testing.assert_allclose(c.ravel(), np.array([-1, -1, 1, 1]) * factors, atol=1e-12)
        if gradient is not None:
            np.testing.assert_allclose(gradient, c, atol=1e-12)
    # Geometric means √3 = 1.73 and √2.4 = 1.55: above 1.6 the first candidate leaves, and one alone has no gradient.
    _, c, _ = run(library, tpo.objectives.icepop(plain, high=1.6, level="sequence"), fields, NEW)
    assert not c.any()


@pytest.mark.parametrize("library", LIBRARIES)
def test_the_corrected_kl_of_a_constant_group(library: str) -> None:
    # Equal scores leave the KL alone. The reference is 1/2 as the snapshot is, so d = log r, and
    # r·k3 = r·log r + 1 - r = .0048412, .0410735 | .0051755, .0503275, together .1014178;
    # d(r·k3)/d log pi = r·log r = .1048412, .3410735 | -.0948245, -.2496725. Each of 4 tokens weighs beta/4 = .1.
    fields = {**GROUP, "scores": np.array([[1.0, 1.0]]), "log_probs_ref": OLD}
    expected = [0.01048412, 0.03410735, -0.00948245, -0.02496725]
    for name in ("grpo", "sapo", "cispo", "ppo", "pmpo"):
        objective = tpo.objective(name, beta=0.4, kl_correction=True)
        loss, c, derived = run(library, objective, fields, NEW)
        offset, base, _ = run(library, tpo.objective(name, beta=0.0), fields, NEW)
        weight = 2 if name in ("ppo", "pmpo") else 1  # these sum over the 2 tokens of a candidate
        np.testing.assert_allclose(loss - offset, weight * 0.01014178, atol=1e-8)
        np.testing.assert_allclose((c - base).ravel(), weight * np.array(expected), atol=1e-8)
        if derived is not None:
            np.testing.assert_allclose(derived, c, atol=1e-9)


@pytest.mark.parametrize("library", LIBRARIES)
def test_the_kl_of_gspo_is_per_token(library: str) -> None:
    # d = log r. Plain: mean over tokens and candidates of k3 = .1136432/4; its slope (1 - 1/r)/4 =
    # .0227273, .0576923 | -.0277778, -.1071429. Corrected by s = √(1.1·1.3), √(.9·.7) = 1.1958261, .7937254:
    # ½[1.1958261·(.0044011 + .0315950)/2 + .7937254·(.0057506 + .0718965)/2] = .0261689, and the slope s/4·(mean k3 + 1 - 1/r)
    # = 1.1958261/4·(.0179980 + .0909091), ..(.0179980 + .2307692) | .7937254/4·(.0388236 - .1111111), ..(.0388236 - .4285714).
    fields = {**GROUP, "scores": np.array([[1.0, 1.0]]), "log_probs_ref": OLD}
    plain, c, _ = run(library, tpo.objective("gspo", beta=1.0), fields, NEW)
    np.testing.assert_allclose(plain, 0.1136432 / 4, atol=1e-7)
    np.testing.assert_allclose(c.ravel(), [0.0227273, 0.0576923, -0.0277778, -0.1071429], atol=1e-7)
    objective = tpo.objective("gspo", beta=1.0, kl_correction=True)
    loss, c, derived = run(library, objective, fields, NEW)
    np.testing.assert_allclose(loss, 0.0261689, atol=2e-7)
    np.testing.assert_allclose(c.ravel(), [0.0325585, 0.0743706, -0.0143441, -0.0773382], atol=1e-7)
    if derived is not None:
        np.testing.assert_allclose(derived, c, atol=1e-9)


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_masked_candidate_counts_in_its_group_alone(library: str) -> None:
    # A third candidate of score 1 is truncated: scored, but not learnt from. Mean 2/3, sigma √2/3:
    # u = 1/√2, -√2 | 1/√2. At r = 1 GRPO has -u/(3·2) on each token of the first two, none on the third;
    # Dr. GRPO has -(R - 2/3)/(3·2). TPO's target is the softmax of u over the first two, p is 1/2.
    # Left out of its group altogether, u = (1, -1): -u/(2·2).
    fields = {
        "log_probs_old": np.log(np.full((1, 3, 2), 0.5)),
        "scores": np.array([[1.0, 0.0, 1.0]]),
        "valid": np.array([[True, True, False]]),
        "scored": np.array([[True, True, True]]),
    }
    new = fields["log_probs_old"]
    tilt = 1 / (1 + np.exp(-1.5 * np.sqrt(2)))
    for name, expected in {
        "grpo": [-np.sqrt(0.5) / 6, np.sqrt(2) / 6, 0],
        "dr_grpo": [-1 / 18, 1 / 9, 0],
        "tpo": [0.5 - tilt, tilt - 0.5, 0],
    }.items():
        _, c, _ = run(library, tpo.objective(name), fields, new)
        np.testing.assert_allclose(c[0, :, 0], expected, atol=1e-9)
        np.testing.assert_allclose(c[0, :, 1], expected, atol=1e-9)
    del fields["scored"]
    _, c, _ = run(library, tpo.objective("grpo"), fields, new)
    np.testing.assert_allclose(c[0, :, 0], [-0.25, 0.25, 0], atol=1e-9)

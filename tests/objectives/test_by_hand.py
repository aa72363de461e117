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
from support.libraries import LIBRARIES, run

RATIOS = np.array([[[1.1, 1.3], [0.9, 0.7]]])
OLD = np.log(np.full((1, 2, 2), 0.5))
NEW = np.log(0.5 * RATIOS)
GROUP = {"log_probs_old": OLD, "scores": np.array([[1.0, 0.0]])}
VALUES = np.array([[[0.4, 0.6], [0.4, 0.6]]])

CASES = {
    # p_old = (1/2, 1/2), q = softmax(1, -1) = (.8807971, .1192029), p = .3575/.515 = .6941748 and .3058252;
    # L = -.8807971 log p_0 - .1192029 log p_1; c = p - q on every token.
    "tpo": (0.4627433543, [-0.1866223207, -0.1866223207, 0.1866223207, 0.1866223207]),
    # No two scores are equal here; `test_pooled_ties_fit_outcomes` has ties.
    "tpo_outcomes": (0.4627433543, [-0.1866223207, -0.1866223207, 0.1866223207, 0.1866223207]),
    # p_old is uniform here, so the anchor makes no difference; `test_the_anchor` tells them apart.
    "tpo_no_anchor": (0.4627433543, [-0.1866223207, -0.1866223207, 0.1866223207, 0.1866223207]),
    # Log-ratios clipped to log .8 and log 1.2: s = (log 1.1 + log 1.2)/2 = .1388159, (log .9 + log .8)/2 = -.1642520;
    # P_0 = 1/(1 + exp(-.3030679)) = .5751923; w* = q above. L = -Σ w log P; (P - w)/2 on unclipped tokens, 0 on clipped.
    "lpo": (0.5891774056, [-0.1528023795, 0, 0.1528023795, 0]),
    # KL(P‖w) = .5751923 log(.5751923/.8807971) + .4248077 log(.4248077/.1192029); P_0(d_0 - d̄)/2.
    "lpo_reverse": (0.2947469742, [-0.2073193829, 0, 0.2073193829, 0]),
    # M_0 = (.5751923 + .8807971)/2 = .7279947; half of both KLs to M; P_0 P_1 (½log P_0/M_0 - ½log P_1/M_1)/2.
    "lpo_js": (0.0616780462, [-0.0416246238, 0, 0.0416246238, 0]),
    # alpha 1/2: 4(1 - √(P_0 w_0) - √(P_1 w_1)); P_0 P_1 · 2(√(w_1/P_1) - √(w_0/P_0))/2.
    "lpo_alpha": (0.2527702183, [-0.1729334073, 0, 0.1729334073, 0]),
    # One candidate is in the top half, so it has all the weight whatever eta: -ell_0.
    "v_mpo": (1.0286199168, [-1, -1, 0, 0]),
    # -½ell_0 + ½ell_1 + .1 · (1/2)Σ k3; slopes ∓1/2 + .1/2·(1 - 1/r).
    "pmpo": (-0.4041727918, [-0.5 + 0.05 / 11, -0.5 + 0.015 / 1.3, 0.5 - 0.05 / 9, 0.5 - 0.015 / 0.7]),
    # ((log 1.43 - log .63) - (1 - 0))² = (.8197099 - 1)²; slope 2·(-.1802901) on the first, the opposite on the second.
    "rebel": (0.0325045188, [-0.3605801923, -0.3605801923, 0.3605801923, 0.3605801923]),
    # -log p_0 = -log(.3575/.515); p - e_0.
    "ce": (0.3650315385, [-0.3058252427, -0.3058252427, 0.3058252427, 0.3058252427]),
    # A = ±.5 at both positions: -½·.5·(ell_0 - ell_1).
    "reinforce": (-0.2049274760, [-0.25, -0.25, 0.25, 0.25]),
    # Sequence ratios 1.43 and .63, A = ±.5: -½(.5·1.43 - .5·.63) = -.2.
    "pg_is": (-0.2, [-0.3575, -0.3575, 0.1575, 0.1575]),
    # Returns 1, 1 | 0, 0 over the batch: mean .5, sigma .5, A = ±1; then PPO's clip, mean of four tokens:
    # -(1.1 + 1.2 - .9 - .8)/4 = -.15.
    "reinforce_pp": (-0.15, [-0.275, 0, 0.225, 0]),
    # A = 2/1·(±.5) = ±1: -½(ell_0 - ell_1).
    "rloo": (-0.4098549519, [-0.5, -0.5, 0.5, 0.5]),
    # -(ell_0 - ell_1)
    "group_pg": (-0.8197099039, [-1, -1, 1, 1]),
    # U = ±.5, gates σ(-U log pi) = .5741781, .5536406 | .4014916, .3717046; -½Σ gate·U·log pi.
    "dg": (-0.0322634984, [-0.1435445285, -0.1384101608, 0.1003729060, 0.0929261455]),
    # A = ±.5/(.5 + 1e-6) = ±.999998: -½·.999998·(ell_0 - ell_1).
    "maxrl": (-0.4098541322, [-0.499999, -0.499999, 0.499999, 0.499999]),
    # One reward, one group: z over the batch of ±1 is ±1, and the loss is GRPO's.
    "gdpo": (-0.1488635680, [-0.2740909091, 0.0023076923, 0.2238888889, -0.0042857143]),
    # One task: grpo_masked on an informative group, so GRPO's.
    "mt_grpo": (-0.1488635680, [-0.2740909091, 0.0023076923, 0.2238888889, -0.0042857143]),
    # A = ±.5: ½[-.5(1.1 + 1.3 - .9 - .7) + Σ(r - 1 - log r)] = ½(-.4 + .1043610); slope ½(-rA + r - 1).
    "trpo_penalty": (-0.1478194923, [-0.225, -0.175, 0.175, 0.025]),
    # ½[-.4 + Σ(r log r - r + 1)] = ½(-.4 + .1014178 - 4 + 4); slope ½ r(log r - A).
    "mdpo": (-0.1492910916, [-0.2225794011, -0.1544632281, 0.1775877680, 0.0501637696]),
    # A = ±.5: min(rA, clip A) = .55, .6 | -.45, -.4; -½·.3 = -.15; slope -½rA, 0 where clipped.
    "ppo": (-0.15, [-0.275, 0, 0.225, 0]),
    # -(1.1 + 1.2 - .9 - .8)/4 + .04·.1136432/4; slope -ru/4 + .01(1 - 1/r).
    "grpo": (-0.1488635680, [-0.2740909091, 0.0023076923, 0.2238888889, -0.0042857143]),
    "grpo_no_kl": (-0.15, [-0.275, 0, 0.225, 0]),
    "grpo_masked": (-0.1488635680, [-0.2740909091, 0.0023076923, 0.2238888889, -0.0042857143]),
    # A = ±.5, tokens divided by T = 2: -.5·.6/4.
    "dr_grpo": (-0.075, [-0.1375, 0, 0.1125, 0]),
    # The upper clip bound is 1.28: -(1.1 + 1.28 - .9 - .8)/4.
    "dapo": (-0.17, [-0.275, 0, 0.225, 0]),
    # Both ratios are far outside the narrow clip range: -½(1.0004 - .9997).
    "gspo": (-0.00035, [0, 0, 0, 0]),
    "gspo_token": (-0.00035, [0, 0, 0, 0]),
    # f = 4σ(.1), 4σ(.3) | (4/1.05)σ(-.105), (4/1.05)σ(-.315) = 2.0999, 2.2978 | 1.8049, 1.6072; -¼(f_0 - f_1).
    "sapo": (-0.2464037445, [-0.2743136442, -0.3177958052, 0.2243809815, 0.1707297008]),
    # -¼[1.1 log .55 + 1.3 log .65 - .9 log .45 - .7 log .35]; slope -ru/4.
    "cispo": (-0.0589734805, [-0.275, -0.325, 0.225, 0.175]),
    # GSPO's, twice, for two tokens, with a wider clip range: -½·2(1.0025 - .998).
    "luspo": (-0.0045, [0, 0, 0, 0]),
    # No token is near log r = ±.4, so the ratios are √1.43 and √.63: -½(1.1958261 - .7937254); slope -½ u s/2.
    "gmpo": (-0.2010503405, [-0.2989565186, -0.2989565186, 0.1984313483, 0.1984313483]),
    # phi(1.43) = 1.43² e^(-1.29) = .5629012, phi(.63) = .63³ e^.74 = .5240824: -¼(phi_0 ell_0 - phi_1 ell_1); slope -¼ phi u.
    "vespo": (-0.0974164237, [-0.1407253061, -0.1407253061, 0.1310205969, 0.1310205969]),
    # e^(-x/τ) = 1/1.43 = .6993007 and e^(x/τ) = .63: log 1.6993007 + log 1.63; slope ∓2·½·(.6993007/1.6993007, .63/1.63).
    "real": (1.0187968279, [-0.4115226337, -0.4115226337, 0.3865030675, 0.3865030675]),
    # KL(.5‖.55) = .0050 and KL(.5‖.65) = .0472 are below .05, so no token is dropped; A = ±.5:
    # -.5(1.1 + 1.3 - .9 - .7)/2; slope -rA/2.
    "dppo_kl": (-0.2, [-0.275, -0.325, 0.225, 0.175]),
    # A = ±.5, the failure tapered by its ratio .63: -½(.5 ell_0 - .5·.63 ell_1).
    "topr": (-0.0339569676, [-0.25, -0.25, 0.1575, 0.1575]),
    # x = log 1.43, log .63 = .3576744, -.4620355: ½Σ(-A x + .0005 x²); slope ½(-A + .001 x).
    "opmd": (-0.2048421240, [-0.2498211628, -0.2498211628, 0.2497689823, 0.2497689823]),
    # V = ½ log((e² + 1)/2) = .7168904, so R - V = .2831096, -.7168904: ½Σ(.001 x - (R - V))²; slope .001(.001 x - (R - V)).
    "oapl": (0.2966091331, [-0.0002827519, -0.0002827519, 0.0007164284, 0.0007164284]),
}  # fmt: skip

OPTIONED = {
    # eta = 1 where KL(w‖uniform) = .1109441, with w = σ(1) = .7310586: -(w ell_0 + (1 - w) ell_1).
    "mpo": ({"epsilon": 0.11094407167}, {}, 1.2490738635),
    # exp(A/.5) = (e, 1/e): -½(e ell_0 + ell_1/e); no cap is reached.
    "awr": ({"temperature": 0.5}, {}, 1.7380206850),
    # Greedy score .25: A = (.75, -.25); -½(.75 ell_0 - .25 ell_1).
    "remax": ({}, {"baseline": np.array([0.25])}, 0.1546912412),
    # λ = 1: returns minus V = (.6, .4 | -.4, -.6); -½(.6 log .55 + .4 log .65 - .4 log .45 - .6 log .35).
    "a2c": ({}, {"values": VALUES}, -0.2091404931),
    # Two tokens: λ = 0, so δ = (.2, .4 | .2, -.6). -¼(.22 + .512 + .18 - .48) - .1·½ell_0.
    "vapo": ({}, {"values": VALUES}, -0.0565690042),
    # One ratio per sequence, 1.43 -> 1.2 and .63 -> .8: -(1.2 - .8) + .04(k3(1.43) + k3(.63)).
    "grpo": ({"granularity": "sequence"}, {}, -0.3927103491),
    # A wide clip range: s = √1.43 and √.63; -½(1.1958261 - .7937254).
    "gspo": ({"clip_low": 0.5, "clip_high": 0.5}, {}, -0.2010503405),
    "gspo_token": ({"clip_low": 0.5, "clip_high": 0.5}, {}, -0.2010503405),
    "luspo": ({"clip_low": 0.5, "clip_high": 0.5}, {}, -0.4021006810),
    # Log-ratios .095, .262 -> .2 | -.105, -.357 -> -.2: -½(e^.1476551 - e^-.1526803).
    "gmpo": ({"clip_low": 0.2, "clip_high": 0.2}, {}, -0.1503544458),
    # verl's reading: ratios clipped to .8 and 1.2: -¼[1.1 log .55 + 1.2 log .65 - .9 log .45 - .8 log .35]
    "cispo": ({"floor": 0.8, "cap": 1.2}, {}, -0.0959886065),
    # The second token of each moved by .15, with its advantage: dropped. -.5(1.1 - .9)/2.
    "dppo": ({"delta": 0.1}, {}, -0.05),
    # The failure is log(.9·.7)/-2 = .231 nats per token behind: dropped. GRPO's clip on the success: -(1.1 + 1.2)/4.
    "opsm": ({"delta": 0.2}, {}, -0.575),
    # k2 against a reference .1 below the snapshot: -.15 + .01·¼Σ(log r + .1)²/2.
    "reinforce_pp": (
        {"group_baseline": True}, {"log_probs_ref": OLD - 0.1}, -0.1497057941
    ),
}  # fmt: skip


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

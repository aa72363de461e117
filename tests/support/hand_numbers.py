"""Losses and coefficients worked out by hand: the common example of `test_by_hand`, one or two numbers per objective."""

import numpy as np

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
    # (log r)² = .0091, .0688 | .0111, .1272: the least three have a mean of .0297, all four of .0541 > .04, so the last
    # is dropped: -¼(1.1 + 1.3 - .9).
    "m2po": (-0.375, [-0.275, -0.325, 0.225, 0]),
    # A = ±.5, every group is informative: -¼·.5(ell_0 - ell_1).
    "gpg": (-0.1024637380, [-0.125, -0.125, 0.125, 0.125]),
    # The best leads the second by 1: -ell_0.
    "grpo_passk": (1.0286199168, [-1, -1, 0, 0]),
    # Equal lengths, and equal probabilities: the baseline is the mean. `test_baselines` has unequal ones.
    "opo": (-0.2049274760, [-0.25, -0.25, 0.25, 0.25]),
    "otb": (-0.2049274760, [-0.25, -0.25, 0.25, 0.25]),
    # One group, so the batch's sigma is its own, and A = ±1: -(1.1 + 1.2 - .9 - .8)/4.
    "lite_ppo": (-0.15, [-0.275, 0, 0.225, 0]),
    # The success's tokens became more probable: influence e^.352 -> 1.2 and 1.3 -> 1.2. The failure's are below 1 -> 1.
    # -¼(1.2·1.1 + 1.2·1.28 - .9 - .8).
    "fipo": (-0.289, [-0.33, 0, 0.225, 0]),
    # mean log pi = -.7192374, so c = .1214, .2885 | .0793, .3306: none is above 1, and it is PPO's clipping.
    "clip_cov": (-0.15, [-0.275, 0, 0.225, 0]),
    # The last c is the largest: -¼(1.1 + 1.3 - .9 - .7) + ¼|log .7|; its slope is ¼(.7 - 1).
    "kl_cov": (-0.1108312640, [-0.275, -0.325, 0.225, -0.075]),
    # x - x̄ = ±.4098550: ½·2(.0409855 - .5)²; slope .1(.0409855 - .5).
    "gvpo": (0.2106943156, [-0.0459014505, -0.0459014505, 0.0459014505, 0.0459014505]),
    # w = σ(1) = .7310586: -(w ell_0 + (1 - w) ell_1).
    "bolt": (1.2490738635, [-0.7310585786, -0.7310585786, -0.2689414214, -0.2689414214]),
    # margin .8197099: log(1 + e^-.0819710); slope -.1·σ(-.0819710) = -.1·.4795187.
    "dpo": (0.6530013557, [-0.0479518719, -0.0479518719, 0.0479518719, 0.0479518719]),
    # (.8197099 - 5)²; slope 2(.8197099 - 5).
    "ipo": (17.4748252878, [-8.3605801923, -8.3605801923, 8.3605801923, 8.3605801923]),
    # x = .3576744, -.4620355, mean below 0, so z = 0: ½[σ(-.0357674) + σ(-.0462036)]; slopes ∓.05 σ(1 - σ).
    "kto": (0.4897551300, [-0.0124960030, -0.0124960030, 0.0124933312, 0.0124933312]),
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
    # Half-life 1: F = log 1.1 + ½ log 1.3, log 1.3 | log .9 + ½ log .7, log .7, so influences 1.2541930, 1.3 | .7529940, .7:
    # -¼(1.1·1.2541930 + 1.28·1.3 - .9·.7529940 - .8·.7).
    "fipo": ({"half_life": 1.0, "influence_low": 0.5, "influence_high": 0.5}, {}, -0.4514794107),
    # Of c between .1 and .3 the first is not clipped by PPO, and is dropped: -¼(1.2 - .9 - .8).
    "clip_cov": ({"low": 0.1, "high": 0.3}, {}, 0.125),
    # k2 against a reference .1 below the snapshot: -.15 + .01·¼Σ(log r + .1)²/2.
    "reinforce_pp": (
        {"group_baseline": True}, {"log_probs_ref": OLD - 0.1}, -0.1497057941
    ),
}  # fmt: skip

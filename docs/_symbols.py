"""The symbols of an objective's equation, each with its meaning, for the table on its page."""

from __future__ import annotations

import re

SYMBOLS: tuple[tuple[str, str, str], ...] = (
    ("L", r"(?<![A-Za-z\\])L(?![A-Za-z_])", "the loss, which is minimised"),
    ("B", r"(?<![A-Za-z\\])B(?![A-Za-z])", "contexts (prompts) of the batch, with index b"),
    ("K", r"(?<![A-Za-z\\])K(?![A-Za-z])", "candidates of a context, with index i or j"),
    ("|o_i|", r"\|o(_i)?\|", "tokens of candidate i, with index t"),
    ("R_i", r"(?<![A-Za-z])R(?![A-Za-z])", "the candidate's score; a bar means the group's mean"),
    ("u_i", r"(?<![A-Za-z])u_i", "the score standardised within its group: `tpo.standardize`"),
    ("A", r"(?<![A-Za-z])A(?![A-Za-z])", "the advantage: a score minus a baseline"),
    (r"\ell_i", r"\\ell(?![a-z])", "the candidate's log-score: its token log-probs, summed"),
    ("p_i", r"(?<![A-Za-z])p_[i{]", r"the policy over the group: a softmax of the log-scores"),
    ("q_i", r"(?<![A-Za-z])q_i", "the target distribution over the group"),
    (r"p^{old}_i", r"p\^\{old\}", "the rollout policy over the group"),
    (r"\eta", r"\\eta", "temperature"),
    (r"\pi", r"\\pi(?!_\{?(old|b|ref))|\\pi_\{?\w*t", "the policy that is trained"),
    (r"\pi_{old}", r"\\pi_\{old\}", "the policy at the rollout snapshot"),
    (r"\pi_{ref}", r"\\pi_\{ref\}", "the reference policy"),
    ("r", r"(?<![A-Za-z_\\^({])r(?![A-Za-z])|\(r_", r"the ratio of the policy to the rollout snapshot"),
    (r"\epsilon", r"\\epsilon", "clip range of the ratio"),
    (r"\beta", r"\\beta", "weight of the KL"),
    ("k_3", r"k_3", r"an estimate of the KL to the reference: :math:`e^{-d} + d - 1`, d the log-ratio to it"),
    ("k_1", r"k_1", "an estimate of the KL to the reference: the log-ratio to it"),
    (r"\mathrm{sg}", r"\{sg\}", "stop-gradient"),
)  # fmt: skip
"""TeX, a pattern that finds it in an equation, and what it is."""

OWN: dict[str, dict[str, str]] = {
    "LPO": {
        r"\tau": "scale of the scores: option `tau`",
        "s_i": "mean log-ratio of a candidate's tokens to the rollout policy",
        "D": "divergence between P and w*",
    },
    "MPO": {r"\epsilon": "bound of the KL from the rollout policy to the weights"},
    "VMPO": {
        r"\epsilon": "bound of the KL from the rollout policy to the weights",
        r"\psi": "weights of the better half",
    },
    "REPS": {r"\epsilon": "bound of the KL from the rollout policy to the weights"},
    "PMPO": {r"\alpha": "weight of the accepted candidates", r"\beta": "weight of the KL"},
    "AWR": {r"\beta": "temperature of the weights", "w_{max}": "largest weight: option `cap`"},
    "REBEL": {r"\eta": "step size of the regression"},
    "CrossEntropy": {"e_y": "1 on the correct candidate y, 0 elsewhere"},
    "Reinforce": {"b": "baseline"},
    "A2C": {
        "r": "reward of a token",
        "V_t": "a critic's value",
        r"\gamma": "discount",
        r"\lambda": "decay of generalised advantage estimation",
    },
    "DG": {"U": "advantage", r"\chi": "delight: advantage times surprise", r"\sigma": "logistic"},
    "ReinforcePP": {"G": "return of a token", r"\sigma_{batch}": "sigma over all tokens"},
    "GDPO": {"r": "index of the reward", "w_r": "weight of a reward", "z": "standardised"},
    "MTGRPO": {"z_j": "share of task j", "w": "task logits"},
    "TRPOPenalty": {r"\lambda": "weight of the KL"},
    "MDPO": {"t": "step size"},
    "DrGRPO": {"L_{max}": "the constant length that every candidate is divided by"},
    "VAPO": {
        r"\ell_i": "",
        r"\ell": "length of the answer",
        r"\mu": "weight of the likelihood of correct answers",
        r"\lambda_{policy}": "decay of generalised advantage estimation for the policy",
        r"\alpha": "how fast that decay approaches 1",
    },
    "GSPO": {"s_i": "the ratio per token: geometric mean over the sequence"},
    "GSPOToken": {"s_{it}": "the sequence's ratio, with the gradient of the token"},
    "SAPO": {r"\sigma": "logistic", r"\tau": "temperature of the gate"},
    "M2PO": {
        "M": "1 on the tokens that are kept",
        r"\tau": "bound of the mean square",
        "r": "ratio to μ, the policy that sampled",
    },
    "GPG": {r"\alpha": "all groups over informative groups", "B_0": "groups of equal scores"},
    "OPO": {"w_i": "weight of a candidate in the baseline", "b": "baseline"},
    "OTB": {
        "W": "weight of a candidate up to token t",
        "b_t": "baseline at position t",
        "v": "index of the vocabulary",
    },
    "LitePPO": {r"\sigma_{batch}": "sigma over all scores of the batch"},
    "FIPO": {
        "F": "how the log-probs from a token on have changed",
        "h": "half-life in tokens",
        "M": "1 on tokens whose ratio is not extreme",
        r"\epsilon_f": "bounds of the influence",
    },
    "ClipCov": {
        "I": "the tokens that are left out",
        "c": "a token's contribution to the covariance",
    },
    "KLCov": {
        "I": "the tokens that are penalised",
        "c": "a token's contribution to the covariance",
        r"\lambda": "weight of the penalty",
    },
    "GVPO": {
        r"\beta": "weight of the log-ratios",
        "x_i": "log-ratio of a candidate to the rollout policy",
    },
    "BOLT": {r"\beta": "temperature of the scores", "w_i": "weight of a candidate"},
    "DPO": {
        r"\beta": "scale of the margin",
        "x_i": "log-ratio of a candidate to the reference",
        r"\sigma": "logistic",
    },
    "IPO": {
        r"\tau": "half the inverse of the margin that is aimed at",
        "x_i": "log-ratio of a candidate to the reference",
    },
    "KTO": {
        r"\beta": "scale of the log-ratio",
        r"\lambda_i": "weight of a desirable or an undesirable candidate",
        "x_i": "log-ratio of a candidate to the reference",
        "z": "reference point: the mean log-ratio, at least 0",
        r"\sigma": "logistic",
    },
}
"""What a class means by a symbol, where that differs or is its own; an empty meaning hides the general one."""


def table(of: str, equation: str) -> list[str]:
    """An rst table of the symbols in the equation of class `of`."""
    found = {tex: meaning for tex, pattern, meaning in SYMBOLS if re.search(pattern, equation)}
    rows = {tex: meaning for tex, meaning in {**found, **OWN.get(of, {})}.items() if meaning}
    lines = ["", ".. list-table::", "   :widths: 12 88", "   :class: symbols", ""]
    for tex, meaning in rows.items():
        lines += [f"   * - :math:`{tex}`", f"     - {meaning}"]
    return [*lines, ""]

"""The symbols of an objective's equation, each with its meaning, for the table on its page.

A symbol that its table does not explain fails the build of the documentation: `unexplained` says what to add.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable

SYMBOLS: tuple[tuple[str, str, str], ...] = (
    ("L", r"(?<![A-Za-z\\])L(?![A-Za-z_])", "the loss, which is minimised"),
    ("B", r"(?<![A-Za-z\\])B(?![a-z])", "contexts (prompts) of the batch, with index b"),
    ("K", r"(?<![a-z\\])K(?![A-Za-z])", "candidates of a context, with index i or j"),
    ("|o_i|", r"\|o(_i)?\|", "tokens of candidate i, with index t"),
    ("o_i", r"\(o(_i)?\)", "the tokens of candidate i, as a whole"),
    ("R_i", r"(?<![A-Za-z])R(?![A-Za-z])", "the candidate's score; a bar means the group's mean"),
    ("u_i", r"(?<![A-Za-z])u_i", "the score standardised within its group: `tpo.standardize`"),
    ("A", r"(?<![A-Za-z])A(?![A-Za-z])", "the advantage: a score minus a baseline"),
    (r"\ell_i", r"\\ell(?![a-z])", "the candidate's log-score: its token log-probs, summed"),
    ("p_i", r"(?<![A-Za-z])p_[i{]", r"the policy over the group: a softmax of the log-scores"),
    ("q_i", r"(?<![A-Za-z\\])q(?![A-Za-z])", "the target distribution over the group"),
    (r"p^{old}_i", r"p\^\{old\}", "the rollout policy over the group"),
    (r"\eta", r"\\eta", "temperature"),
    (r"\pi", r"\\pi(?!_\{?(old|b|ref))|\\pi_\{?\w*t", "the policy that is trained"),
    (r"\pi_{old}", r"\\pi_\{old\}", "the policy at the rollout snapshot"),
    (r"\pi_{ref}", r"\\pi_\{ref\}", "the reference policy"),
    ("r", r"(?<![A-Za-z_\\^{])(?<!\{\()r(?![a-z])", r"the ratio of the policy to the rollout snapshot"),
    (r"\epsilon", r"\\epsilon", "clip range of the ratio; low and high: below and above 1"),
    (r"\beta", r"\\beta", "weight of the KL"),
    ("k_3", r"k_3", r"an estimate of the KL to the reference: :math:`e^{-d} + d - 1`, d the log-ratio to it"),
    ("k_1", r"k_1", "an estimate of the KL to the reference: the log-ratio to it"),
    (r"\mu", r"\\mu(?![a-z])", "the policy that sampled: `log_probs_rollout`, or the snapshot without it"),
    (r"\mathrm{sg}", r"\{sg\}", "stop-gradient"),
)  # fmt: skip
"""TeX, a pattern that finds it in an equation, and what it is."""

OWN: dict[str, dict[str, str]] = {
    "LPO": {
        r"\tau": "scale of the scores: option `tau`",
        "s_i": "mean log-ratio of a candidate's tokens to the rollout policy",
        "w^*": "the target: weights of the candidates",
        "P_i": "the policy over the group: a softmax of s",
        "D": "divergence between P and w*",
    },
    "MPO": {
        "w_i": "weight of a candidate: the target",
        r"\epsilon": "bound of the KL from the rollout policy to the weights",
    },
    "VMPO": {
        r"\epsilon": "bound of the KL from the rollout policy to the weights",
        r"\psi": "weights of the better half, which is called top",
    },
    "REPS": {
        "w_n": "weight of a candidate of the batch",
        r"\epsilon": "bound of the KL from the rollout policy to the weights",
    },
    "PMPO": {
        r"\alpha": "weight of the accepted candidates (acc); that of the rejected ones (rej) is one minus it",
        r"\beta": "weight of the KL",
    },
    "AWR": {r"\beta": "temperature of the weights", "w_{max}": "largest weight: option `cap`"},
    "REBEL": {
        r"\eta": "step size of the regression",
        r"\Delta_i": "the candidate's log-ratio to the rollout snapshot",
    },
    "ReMax": {r"R(\mathrm{greedy})": "the score of the greedy decode of the same prompt"},
    "CrossEntropy": {"e_y": "1 on the correct candidate y, 0 elsewhere"},
    "Reinforce": {"b": "baseline"},
    "A2C": {
        "r": "reward of a token",
        "V_t": "a critic's value",
        r"\gamma": "discount",
        r"\lambda": "decay of generalised advantage estimation",
    },
    "DG": {"U": "advantage", r"\chi": "delight: advantage times surprise", r"\sigma": "logistic"},
    "ReinforcePP": {
        "G": "return of a token; s: the tokens from t on",
        r"\sigma_{batch}": "sigma over all tokens of the batch",
    },
    "GDPO": {
        "r": "index of the reward",
        "w_r": "weight of a reward",
        "z": "standardised, within the group or over the batch",
    },
    "MTGRPO": {
        "z_j": "share of task j",
        "w": "task logits",
        "L^{GRPO}_b": "GRPO's loss of a context; informative: one whose scores differ",
    },
    "TRPOPenalty": {r"\lambda": "weight of the KL"},
    "MDPO": {"t": "step size"},
    "DrGRPO": {"L_{max}": "the constant length that every candidate is divided by"},
    "VAPO": {
        r"\ell_i": "",
        r"\ell": "length of the answer",
        r"\mu": "weight of the likelihood of correct answers",
        r"\mathrm{NLL}": "negative log-likelihood of the correct answers, per token",
        r"\lambda_{policy}": "decay of generalised advantage estimation for the policy",
        r"\alpha": "how fast that decay approaches 1",
    },
    "GSPO": {"s_i": "the ratio per token: geometric mean over the sequence"},
    "GSPOToken": {"s_{it}": "the sequence's ratio, with the gradient of the token"},
    "SAPO": {
        "f": "the gate on the ratio",
        r"\sigma": "logistic",
        r"\tau": "temperature of the gate: options `tau_positive` and `tau_negative`",
    },
    "CISPO": {
        "floor": "least value of the clipped ratio: option `floor`",
        "cap": "largest value of the clipped ratio: option `cap`",
    },
    "LUSPO": {"s_i": "the ratio per token: geometric mean over the sequence"},
    "GMPO": {"x_{it}": "the token's log-ratio, clipped on the side of its advantage"},
    "VESPO": {
        "w_i": "the ratio of the whole sequence",
        r"\phi": "the weight: a bump that is 1 at w = 1",
        "k": "how steep the bump rises: options `k_positive` and `k_negative`",
        r"\lambda": "how steep it falls: options `lambda_positive` and `lambda_negative`",
    },
    "REAL": {
        "x_i": "mean log-ratio of a candidate's tokens; + and -: candidates above and below their group's mean",
        r"\tau": "temperature of the classifier: option `tau`",
    },
    "DPPO": {
        "m_{it}": "0 for a token that is dropped, else 1",
        "D": "divergence of the two policies at this token: option `divergence`",
        r"\delta": "the divergence that is allowed: option `delta`",
        "r": r"the ratio of the policy to :math:`\mu`",
    },
    "OPSM": {
        "m_i": "0 for a sequence that is dropped, else 1",
        r"\delta": "the mean log-ratio per token that is allowed: option `delta`",
        "r": r"the ratio of the policy to :math:`\mu`",
    },
    "TOPR": {"w_i": "weight of a sequence: 1, or its ratio, at most 1"},
    "OPMD": {
        "x_i": r"the candidate's log-ratio to :math:`\mu`",
        r"\tau": "weight of the squared log-ratio: option `tau`",
    },
    "OAPL": {
        "x_i": r"the candidate's log-ratio to :math:`\mu`",
        "V": "value of the context under the KL-regularised optimum, from the group's scores",
        r"\beta": "",
        r"\beta_1": "temperature of V: option `beta1`",
        r"\beta_2": "weight of the KL, which scales the log-ratio: option `beta2`",
    },
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
        "k": "index of the tokens from t on",
        r"\epsilon": "",
        "h": "half-life in tokens",
        "M": "1 on tokens whose ratio is not extreme",
        r"\epsilon_f": "bounds of the influence: low and high, below and above 1",
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


FUNCTIONS = ("mean", "softmax", "clip", "KL")
"""Names in upright type that need no row."""
INDICES = "ijtbnmyled"
"""Letters that count, and those of powers and derivatives."""
LAYOUT = re.compile(
    "[lc]?dots|[bB]igg?|[lg]eq?|[lr]floor|left|right|q?quad|frac|sum|prod|log|exp|min|max|arg|partial|propto"
    "|approx|mid|in|notin|ne|pm|cdot|times|overline|hat|bar|tilde|infty"
)
"""TeX commands that stand for no symbol."""


def symbols(equation: str) -> list[str]:
    """What a reader must know: letters, Greek commands, and words, in subscripts too, without indices."""
    text = equation.replace(".. math::", " ")
    text = re.sub(r"\\(text|begin|end)\{[^}]*\}", " ", text)
    found = [word for word in re.findall(r"\\mathrm\{(\w+)\}", text) if word not in FUNCTIONS]
    text = re.sub(r"\\(math\w+|operatorname)\{[^}]*\}", " ", text)
    for below in re.findall(r"_\{([^{}]*)\}", text):
        found += re.findall(r"(?<![\\A-Za-z])[A-Za-z]{3,}", below)
    text = re.sub(r"_(\{[^{}]*\}|\\[A-Za-z]+|\w)", " ", text)
    found += [
        rf"\{name}" for name in re.findall(r"\\([A-Za-z]+)", text) if not LAYOUT.fullmatch(name)
    ]
    for run in re.findall(r"[A-Za-z]+", re.sub(r"\\[A-Za-z]+", " ", text)):
        found += [run] if len(run) > 2 else run
    return [name for name in dict.fromkeys(found) if name not in INDICES]


def meanings(of: str, equation: str) -> dict[str, str]:
    """The rows of the table for the equation of class `of`: TeX and what it is."""
    found = {tex: meaning for tex, pattern, meaning in SYMBOLS if re.search(pattern, equation)}
    return {tex: meaning for tex, meaning in {**found, **OWN.get(of, {})}.items() if meaning}


def unexplained(of: str, equation: str) -> list[str]:
    """The symbols of the equation that its table lacks, each with what to do; a word may be in any meaning."""
    rows = meanings(of, equation)
    known = {name for tex in rows for name in symbols(tex)}
    words = " ".join(rows.values())
    missing = [
        name
        for name in symbols(equation)
        if name not in known and not (len(name) > 2 and re.search(rf"\b{re.escape(name)}\b", words))
    ]
    return [
        f"the table of {of}'s page does not explain {name} of its equation: in docs/_symbols.py add "
        f'r"{name}": "what it is" to OWN["{of}"], or a row to SYMBOLS if it means the same in several classes'
        for name in missing
    ]


def missing(classes: Iterable[type]) -> list[str]:
    """Symbols of these objectives' equations that the tables on their pages do not explain."""
    equations = {one.__name__: (inspect.getdoc(one) or "").split("\n\n")[1:2] for one in classes}
    return [
        words
        for name, parts in sorted(equations.items())
        for equation in parts
        for words in unexplained(name, equation)
    ]


def table(of: str, equation: str) -> list[str]:
    """An rst table of the symbols in the equation of class `of`."""
    lines = ["", ".. list-table::", "   :widths: 12 88", "   :class: symbols", ""]
    for tex, meaning in meanings(of, equation).items():
        lines += [f"   * - :math:`{tex}`", f"     - {meaning}"]
    return [*lines, ""]

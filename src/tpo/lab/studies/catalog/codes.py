"""Studies of open questions on codes of bits, a small task with groups, failures and shared weights."""

from __future__ import annotations

from tpo.declarations.study import Measure, Scale, Study
from tpo.stats.verdicts import Claim

HOW = (
    "Prompts of random bits; one action names a code of as many bits, right if it equals the prompt. Each bit "
    "has a logit that is linear in the prompt, with one set of weights for all prompts, so what one group "
    "teaches moves the others. Adam; groups of 8 samples of 16 prompts; four epochs per batch unless the "
    "method has one. The error is one minus the probability of the right code. "
)
SAME = "Both sides have the same options and the same learning rates. "
TRUE_ERROR = Measure("expected_error", "error", log=True)
SETTINGS = {"bits": 6, "K": 8, "B": 16}
RATES = (0.03, 0.1)
SEEDS = 10


def smoke(methods: tuple[str, ...], **grid: tuple[object, ...]) -> Scale:
    """Two seeds of two episodes with tiny groups, at one point of the grid."""
    return Scale(2, 2, {"K": 4, "B": 4}, {"learning_rate": (0.03,), **grid}, methods)


RATIO = "tpo:score=ratio"
"""TPO with log-ratios as scores, as language models are trained: p_old is uniform over the samples."""
GROUPED = {"tpo": "TPO", RATIO: "TPO with log-ratios", "grpo": "GRPO"}
SIDES = {RATIO: "TPO with log-ratios", "grpo": "GRPO"}

FAILED_GROUPS = Study(
    name="failed_groups",
    title="Groups without a success",
    question="Should a group without a success be learned from?",
    source="open question of the TPO talk",
    about=HOW
    + SAME
    + "Six bits, so 88% of the first groups hold no right code. A failure scores 0.1 times an extra "
    "reward: its share of right bits (helpful), of wrong bits (misleading), or uniform noise (random). A group "
    "without a success is learned from (learn), left out (drop), or has all scores set to 0 (anchor), so that "
    "TPO's target there is the old policy and GRPO keeps its KL.",
    build="codes",
    methods=tuple(GROUPED),
    settings={**SETTINGS, "size": 0.1},
    grid={
        "extra": ("helpful", "random", "misleading"),
        "failed": ("learn", "drop", "anchor"),
        "learning_rate": RATES,
    },
    scales={
        "smoke": smoke(("grpo",), extra=("helpful",), failed=("drop",)),
        "quick": Scale(5, 100, grid={"learning_rate": (0.03,)}),
        "full": Scale(SEEDS, 200),
    },
    measures=(TRUE_ERROR,),
    series=("failed",),
    threshold=0.05,
    claims=(
        *(
            Claim(f"With helpful rewards {label} learns more from failed groups than without them", name,
                  where={"extra": "helpful", "failed": "learn"}, versus={"failed": "drop"})
            for name, label in GROUPED.items()
        ),
        *(
            Claim(f"With {extra} rewards {label} does better without failed groups", name,
                  where={"extra": extra, "failed": "drop"}, versus={"failed": "learn"})
            for extra in ("random", "misleading")
            for name, label in GROUPED.items()
        ),
        *(
            Claim(f"With {extra} rewards anchoring {label} in failed groups is better than dropping them", name,
                  where={"extra": extra, "failed": "anchor"}, versus={"failed": "drop"})
            for extra in ("random", "misleading")
            for name, label in GROUPED.items()
        ),
        *(
            Claim(f"{GROUPED[name]} ends below GRPO with {extra} rewards", name, than=("grpo",),
                  where={"extra": extra})
            for name in ("tpo", RATIO)
            for extra in ("helpful", "random", "misleading")
        ),
    ),
    extra=True,
)  # fmt: skip

SIGMA_FLOOR = Study(
    name="sigma_floor",
    title="Groups whose scores hardly differ",
    question="Does a floor of sigma keep small irrelevant rewards from being learned?",
    source="open question of the TPO talk",
    about=HOW
    + SAME
    + "Six bits. Every score has a distractor of the given size added: uniform noise (random) or the "
    "code's first bit (systematic). Scores of a group are divided by their sigma, so in a group that differs "
    "by the distractor alone its size does not matter, unless the sigma has a floor.",
    build="codes",
    methods=tuple(SIDES),
    settings={**SETTINGS, "rewarded": "all"},
    grid={
        "extra": ("random", "systematic"),
        "size": (0.001, 0.01, 0.1),
        "sigma_floor": (0.0, 1e-6, 0.01, 0.1),
        "learning_rate": RATES,
    },
    scales={
        "smoke": smoke((RATIO,), extra=("random",), size=(0.01,), sigma_floor=(0.1,)),
        "quick": Scale(5, 100, grid={"learning_rate": (0.03,), "size": (0.01,)}),
        "full": Scale(SEEDS, 200),
    },
    measures=(TRUE_ERROR,),
    series=("sigma_floor",),
    threshold=0.05,
    claims=(
        *(
            Claim(f"With {extra} distractors {label} ends lower with a floor of 0.1 than without", name,
                  where={"extra": extra, "sigma_floor": 0.1}, versus={"sigma_floor": 0.0})
            for extra in ("random", "systematic")
            for name, label in SIDES.items()
        ),
        *(
            Claim(f"A floor of 1e-6 changes nothing for {label}", name,
                  where={"sigma_floor": 1e-6}, versus={"sigma_floor": 0.0})
            for name, label in SIDES.items()
        ),
        *(
            Claim(f"TPO with log-ratios ends below GRPO with a floor of {floor:g}", RATIO, than=("grpo",),
                  where={"sigma_floor": floor})
            for floor in (0.0, 0.1)
        ),
    ),
    extra=True,
)  # fmt: skip

RIVALS = ("reinforce", "ppo", "grpo", "dg", "lpo")
LEVELS = (0.01, 0.1, 0.3)
KINDS = ("bugs", "random", "corrupted", "rare", "together")

FRICTION = Study(
    name="friction",
    title="Faults between actor and learner",
    question="Which method bears actor bugs, random actors, corrupted rewards and rare successes best?",
    source="open question of the TPO talk; the frictions of arXiv 2603.20521, defined here",
    about=HOW
    + SAME
    + "Four bits. REINFORCE, PPO and DG take single samples of eight times the prompts, so that all have "
    "equally many. At rate r: an actor's action has its first bit inverted with probability r (bugs), is "
    "uniform (random), its score is inverted (corrupted), or each bit of the first policy is right with "
    "probability 1/2 - r (rare); or all four (together). Old log-probs are the learner's own, as in trainers "
    "that compute them again. These definitions are ours.",
    build="codes",
    methods=("tpo", *RIVALS),
    settings={**SETTINGS, "bits": 4},
    grid={
        "friction": ("none", *(f"{kind} {rate}" for kind in KINDS for rate in LEVELS)),
        "learning_rate": RATES,
    },
    scales={
        "smoke": smoke(("dg",), friction=("together 0.1",)),
        "quick": Scale(5, 100, grid={"learning_rate": (0.03,)}),
        "full": Scale(SEEDS, 150),
    },
    measures=(TRUE_ERROR,),
    threshold=0.05,
    claims=(
        *(
            Claim(f"TPO ends lowest: {kind} {rate}", "tpo", where={"friction": f"{kind} {rate}"})
            for kind in KINDS
            for rate in LEVELS[1:]
        ),
        Claim("TPO ends lowest without friction", "tpo", where={"friction": "none"}),
    ),
    extra=True,
)  # fmt: skip

TIES = ("tpo", "tpo_outcomes", RATIO, "grpo")

DIVERSITY = Study(
    name="diversity",
    title="Candidates that repeat",
    question="How much slower is TPO when the candidates of a group repeat?",
    source="not in the paper",
    about=HOW
    + SAME
    + "Codes of one, two and four bits, so 2, 4 and 16 actions for 8 samples, drawn at temperature 1 or "
    "0.5. Old log-probs are the learner's at temperature 1. TPO with pooled ties fits equal scores as one "
    "outcome.",
    build="codes",
    methods=TIES,
    settings=SETTINGS,
    grid={"bits": (1, 2, 4), "temperature": (1.0, 0.5), "learning_rate": RATES},
    scales={
        "smoke": smoke(("tpo_outcomes",), bits=(1,), temperature=(0.5,)),
        "quick": Scale(5, 100, grid={"learning_rate": (0.03,)}),
        "full": Scale(SEEDS, 200),
    },
    measures=(TRUE_ERROR,),
    threshold=0.01,
    claims=(
        *(
            Claim(f"TPO takes more episodes than GRPO to 1% error with {bits}-bit codes", "grpo", than=("tpo",),
                  where={"bits": bits}, metric="steps")
            for bits in (1, 2, 4)
        ),
        *(
            Claim(f"Pooled ties bring TPO to 1% sooner with {bits}-bit codes", "tpo_outcomes", than=("tpo",),
                  where={"bits": bits}, metric="steps")
            for bits in (1, 2, 4)
        ),
        Claim("TPO with pooled ties reaches 1% before GRPO", "tpo_outcomes", than=("grpo",), metric="steps"),
        Claim("TPO with log-ratios reaches 1% before TPO", RATIO, than=("tpo",), metric="steps"),
        Claim("TPO takes more episodes at temperature 0.5", "tpo", metric="steps",
              where={"temperature": 1.0}, versus={"temperature": 0.5}),
    ),
    extra=True,
)  # fmt: skip

FORWARD = "lpo:score=sum:divergence=forward"
OTHERS = {
    "lpo:score=sum:divergence=alpha:alpha=0.75": "alpha 0.75",
    "lpo:score=sum:divergence=alpha:alpha=0.5": "alpha 0.5",
    "lpo:score=sum:divergence=alpha:alpha=0.25": "alpha 0.25",
    "lpo:score=sum:divergence=js": "Jensen-Shannon",
    "lpo:score=sum:divergence=reverse": "reverse KL",
}

PROJECTIONS = Study(
    name="projections",
    title="One target, six divergences",
    question="Does it matter with which divergence the policy is fitted to TPO's target?",
    source="open question of the TPO talk",
    about=HOW
    + SAME
    + "Six bits. All fit TPO's target q ∝ p_old·exp(u/eta): forward KL is TPO. Jensen-Shannon, Amari's "
    "alpha at three values, and reverse KL have the same optimum and other gradients on the way. The target "
    "has a constant eta, or in each group the eta at which KL(q‖p_old) is a budget.",
    build="codes",
    methods=(FORWARD, *OTHERS),
    settings=SETTINGS,
    grid={
        "target": ("eta=0.5", "eta=1", "eta=2", "kl_budget=0.1", "kl_budget=0.5"),
        "learning_rate": RATES,
    },
    scales={
        "smoke": smoke(("lpo:score=sum:divergence=js",), target=("kl_budget=0.1",)),
        "quick": Scale(5, 100, grid={"learning_rate": (0.03,)}),
        "full": Scale(SEEDS, 200),
    },
    measures=(TRUE_ERROR,),
    threshold=0.05,
    labels={FORWARD: "forward KL (TPO)", **OTHERS},
    claims=(
        *(
            Claim(f"Forward KL ends below {label}", FORWARD, than=(name,))
            for name, label in OTHERS.items()
        ),
        Claim("Forward KL ends lower with a budget of 0.5 than with eta = 1", FORWARD,
              where={"target": "kl_budget=0.5"}, versus={"target": "eta=1"}),
    ),
    extra=True,
)  # fmt: skip

STUDIES = (FAILED_GROUPS, SIGMA_FLOOR, FRICTION, DIVERSITY, PROJECTIONS)

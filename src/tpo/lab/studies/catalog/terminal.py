"""Studies of token sequences with a terminal reward: 1 for a fully correct answer, else 0."""

from __future__ import annotations

from tpo.declarations.study import ERROR, Measure, Scale, Study
from tpo.lab.studies.catalog.dense import HOW, TINY, TRANSFORMER
from tpo.lab.studies.method_specs import fitting_objectives
from tpo.stats.verdicts import Claim

SPARSE = "Reverse copy, one reward for a fully correct answer. "
GROUPS = (
    "TPO and GRPO take K rollouts per prompt, PPO and DG one. The error is one minus exact match."
)
SMALL = {"H": 5, "K": 8, "B": 100}
"""What a quick run changes: prompts short enough that methods differ within minutes."""
QUICK = Scale(4, 100, SMALL)
"""The same runs for all quick studies: at H = 5 the methods differ within 100 episodes."""

SETTINGS = {**TRANSFORMER, "V": 2, "K": 8, "B": 100, "target": "reverse_copy", "reward": "terminal"}
LARGE = {**SETTINGS, "H": 8, "K": 32, "B": 256}

TERMINAL = Study(
    name="terminal",
    title="Terminal reward",
    question="With one reward per answer, does TPO still learn when answers get longer?",
    source="Table 3, Fig. 8",
    about=HOW
    + SPARSE
    + GROUPS
    + " Interaction-matched: PPO and DG get B·K prompts and sqrt(K) times the "
    "learning rate. Seeds either solve the task or do not, and a solved seed may relapse: read the median "
    "and the solved seeds beside the mean.",
    build="sequences",
    methods=("tpo", "grpo", "grpo_no_kl", "ppo", "dg"),
    settings=SETTINGS,
    grid={"H": (7, 8, 9, 10), "matching": ("prompt", "interaction")},
    scales={
        "smoke": Scale(2, 4, TINY, {"H": (3,), "matching": ("prompt",)}),
        "quick": Scale(4, 100, SMALL, {"H": (5,), "matching": ("prompt",)}),
        "full": Scale(20, 2000),
    },
    claims=(
        Claim("TPO has the lowest error at every H", "tpo"),
        Claim("GRPO without KL is worse than GRPO", "grpo", than=("grpo_no_kl",)),
    ),
)

ABLATIONS = Study(
    name="ablations",
    title="Without the anchor, without the target",
    question="Are TPO's anchor to the old policy and its target both needed?",
    source="Fig. 9",
    about=HOW
    + SPARSE
    + "TPO without p_old in its target, and Group PG: TPO's standardised scores in a plain "
    "policy gradient, over the same four epochs.",
    build="sequences",
    methods=("tpo", "tpo_no_anchor", "group_pg", "grpo", "grpo_no_kl"),
    settings=SETTINGS,
    grid={"H": (7, 8, 10)},
    scales={
        "smoke": Scale(2, 4, TINY, {"H": (3,)}),
        "quick": Scale(4, 100, SMALL, {"H": (5,)}),
        "full": Scale(20, 2000),
    },
    claims=(
        Claim("TPO has the lowest error at every H", "tpo"),
        *(
            Claim(
                f"{label} fails at H = 10: above 95%",
                name,
                rule="above",
                value=0.95,
                where={"H": 10},
            )
            for name, label in (("tpo_no_anchor", "TPO without anchor"), ("group_pg", "Group PG"))
        ),
    ),
)

MANY = ("tpo", "tpo:epochs=1", "grpo", "grpo_no_kl", "ppo", "dg")
MANY_SCALES = {
    "smoke": Scale(2, 4, TINY),
    "quick": QUICK,
    "full": Scale(10, 2000),
}
SHARED = "The three studies of these six methods share their runs. "

GRADIENT_NORM = Study(
    name="gradient_norm",
    title="The gradient vanishes when the target is reached",
    question="Does TPO's gradient vanish once the policy matches the target, and does GRPO's "
    "persist?",
    source="Fig. 11",
    about=HOW + SPARSE + SHARED + "The L2 norm of the first epoch's gradient, beside the error.",
    build="sequences",
    methods=MANY,
    settings=LARGE,
    scales=MANY_SCALES,
    measures=(ERROR, Measure("gradient_norm", "gradient norm", log=True)),
    claims=(
        Claim(
            "TPO's gradient ends smaller than GRPO's", "tpo", than=("grpo",), metric="gradient_norm"
        ),
    ),
)

INFORMATIVE = Study(
    name="informative_groups",
    title="Which groups are informative",
    question="Does TPO end with a success in more prompts than GRPO?",
    source="Fig. 12",
    about=HOW
    + SPARSE
    + SHARED
    + "The share of prompts with a success, the share of groups whose scores "
    "are all equal, and the mean weight (TPO's q, the others' absolute advantage) on successes and failures.",
    build="sequences",
    methods=MANY,
    settings=LARGE,
    scales=MANY_SCALES,
    measures=(
        ERROR,
        Measure("success", "share of prompts with a success"),
        Measure("zero_variance", "share of zero-variance groups"),
        Measure("winners", "weight on successes", log=True),
        Measure("losers", "weight on failures", log=True),
    ),
    claims=(
        Claim(
            "TPO ends with a success in more prompts than GRPO",
            "grpo",
            than=("tpo",),
            metric="success",
        ),
    ),
)

MULTI_EPOCH = Study(
    name="multi_epoch",
    title="Four epochs on a batch, and one",
    question="How much of TPO's speed comes from four epochs on each batch?",
    source="Fig. 15",
    about=HOW + SPARSE + SHARED + "TPO with four epochs and with one, beside the others.",
    build="sequences",
    methods=MANY,
    settings=LARGE,
    scales=MANY_SCALES,
    claims=(
        Claim(
            "TPO reaches 1% before PPO, DG and GRPO",
            "tpo",
            than=("ppo", "dg", "grpo"),
            metric="steps",
        ),
        Claim("Four epochs reach 1% before one", "tpo", than=("tpo:epochs=1",), metric="steps"),
    ),
)

GROUP_SIZE = Study(
    name="group_size",
    title="Group size",
    question="How many candidates per prompt does TPO need?",
    source="Fig. 13",
    about=HOW + SPARSE + "TPO and GRPO with groups of K rollouts, four epochs.",
    build="sequences",
    methods=("tpo", "grpo"),
    settings=LARGE,
    grid={"K": (4, 8, 16, 32, 64)},
    scales={
        "smoke": Scale(2, 4, TINY, {"K": (4,)}),
        "quick": Scale(4, 100, SMALL, {"K": (4, 8)}),
        "full": Scale(30, 2000),
    },
    sweep="K",
    claims=(Claim("TPO ends below GRPO at every K", "tpo"),),
)

MASKING = Study(
    name="masking",
    title="GRPO without zero-variance groups",
    question="Does GRPO improve if groups with equal scores are left out?",
    source="Fig. 14",
    about=HOW
    + SPARSE
    + "GRPO masked leaves groups with equal scores out of the loss, KL included.",
    build="sequences",
    methods=("tpo", "grpo", "grpo_masked"),
    settings=LARGE,
    scales={
        "smoke": Scale(2, 4, TINY),
        "quick": QUICK,
        "full": Scale(30, 2000),
    },
    claims=(
        Claim("TPO has the lowest error", "tpo"),
        Claim("Masking does not help GRPO", "grpo", than=("grpo_masked",)),
    ),
)

EPOCHS = Study(
    name="epochs",
    title="Epochs on a batch",
    question="How many epochs per batch do TPO and GRPO tolerate?",
    source="Fig. 16",
    about=HOW + SPARSE + "TPO and GRPO with E gradient epochs on each batch.",
    build="sequences",
    methods=("tpo", "grpo"),
    settings=LARGE,
    grid={"epochs": (1, 2, 4, 8, 16)},
    scales={
        "smoke": Scale(2, 4, TINY, {"epochs": (1, 4)}),
        "quick": Scale(4, 100, SMALL, {"epochs": (1, 4)}),
        "full": Scale(30, 2000),
    },
    sweep="epochs",
    claims=(Claim("TPO ends below GRPO at every number of epochs", "tpo"),),
)

FADED = "optimiser=muon_fading"
FADING = Study(
    name="fading",
    title="Steps that vanish with the gradient",
    question="How much of TPO's lead comes from an optimiser that takes full steps on a tiny "
    "gradient?",
    source="not in the paper",
    about=HOW
    + SPARSE
    + "Muon's steps have one size, whatever the gradient's. Fading steps are multiplied by "
    "min(1, ‖g‖ / 0.001), so that a vanishing gradient no longer moves a policy that has solved its task. "
    "Of the thresholds 0.01, 0.001 and 0.0001, only with 0.001 did TPO not relapse at H = 6.",
    build="sequences",
    methods=("tpo", f"tpo:{FADED}", "grpo", f"grpo:{FADED}"),
    settings=SETTINGS,
    grid={"H": (7, 8, 9, 10)},
    scales={
        "smoke": Scale(2, 4, TINY, {"H": (3,)}),
        "quick": Scale(4, 400, SMALL, {"H": (5,)}),
        "full": Scale(20, 2000),
    },
    claims=(
        Claim("TPO ends lower with fading steps", f"tpo:{FADED}", than=("tpo",)),
        Claim("So does GRPO", f"grpo:{FADED}", than=("grpo",)),
        Claim(
            "TPO ends below GRPO, both with fading steps", f"tpo:{FADED}", than=(f"grpo:{FADED}",)
        ),
    ),
    extra=True,
)

COMPARE = Study(
    name="compare",
    title="League of objectives",
    question="How do all objectives of the library do on one task, untuned?",
    source="not in the paper",
    about=HOW
    + SPARSE
    + "Every objective of the library that learns from scored rollouts alone, in the "
    "TPO paper's setting where it has one, else with its published defaults: objectives that "
    "compare candidates take K rollouts per prompt, the others one; "
    "those made for several epochs take four. No objective was tuned for this task.",
    build="sequences",
    methods=tuple(fitting_objectives()),
    settings={**SETTINGS, "H": 7},
    scales={
        "smoke": Scale(2, 4, TINY),
        "quick": Scale(2, 100, SMALL),
        "full": Scale(10, 2000),
    },
    ranked=True,
    extra=True,
)

STUDIES = (
    TERMINAL, ABLATIONS, GRADIENT_NORM, INFORMATIVE, GROUP_SIZE, MASKING, MULTI_EPOCH, EPOCHS,
)  # fmt: skip
EXTRA_STUDIES = (FADING, COMPARE)

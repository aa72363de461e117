"""Studies of token sequences with a reward for every token."""

from __future__ import annotations

from tpo.declarations.study import Scale, Study
from tpo.stats.verdicts import Claim

TRANSFORMER = {"width": 64, "layers": 2, "heads": 2, "learning_rate": 1e-3}
TINY = {"H": 3, "K": 4, "B": 8, "width": 16, "layers": 1, "heads": 1}
"""What a smoke test changes: seconds instead of hours, with meaningless numbers."""

HOW = (
    "A decoder-only transformer (width 64, two layers, two heads) reads H random tokens and writes H; Muon "
    "on matrices, AdamW on the rest, at 0.001. "
)
TOKEN_GROUPS = (
    "Token methods draw K next tokens at every prefix of one trajectory; PPO and DG take one rollout per "
    "prompt. The error is that of the training rollouts, per token."
)

SETTINGS = {
    **TRANSFORMER,
    "H": 10,
    "V": 2,
    "K": 8,
    "B": 100,
    "target": "reverse_copy",
    "reward": "bag",
}
METHODS = ("tpo_token", "grpo_token", "dg", "ppo")
TARGETS = ("copy", "flip", "reverse_copy", "reverse_flip")
FIRST = Claim("TPO reaches 1% first", "tpo_token", metric="steps")

VOCAB = Study(
    name="vocab",
    title="Vocabulary size",
    question="With a reward per token, how does the number of episodes grow with the vocabulary?",
    source="Table 1, Fig. 6",
    about=HOW
    + "Reverse copy with a reward for each correct token, over vocabularies. "
    + TOKEN_GROUPS,
    build="sequences",
    methods=METHODS,
    settings=SETTINGS,
    grid={"V": (2, 4, 8, 16)},
    scales={
        "smoke": Scale(2, 4, TINY, {"V": (2,)}),
        "quick": Scale(3, 150, grid={"V": (2, 16)}),
        "full": Scale(20, 1000),
    },
    claims=(FIRST,),
)

VARIATIONS = Study(
    name="variations",
    title="Targets and rewards",
    question="Does TPO's speed hold for other targets and for a sequential reward?",
    source="Table 2, Fig. 7",
    about=HOW
    + "Four targets under a reward for each correct token (bag) or for the correct prefix "
    "(sequential). Interaction-matched: PPO and DG get B·K prompts and sqrt(K) times the learning rate. The "
    "published steps are shown beside the prompt-matched runs. " + TOKEN_GROUPS,
    build="sequences",
    methods=METHODS,
    settings=SETTINGS,
    grid={
        "reward": ("bag", "sequential"),
        "target": TARGETS,
        "matching": ("prompt", "interaction"),
    },
    scales={
        "smoke": Scale(
            2,
            4,
            TINY,
            {"target": ("reverse_copy",), "reward": ("sequential",), "matching": ("interaction",)},
        ),
        "quick": Scale(
            3,
            150,
            grid={"target": ("reverse_copy",), "matching": ("prompt",)},
            adjust={("reward", "sequential"): {"episodes": 250}},
        ),
        "full": Scale(10, 1000),
    },
    claims=(FIRST,),
)

TEMPERATURE = Study(
    name="temperature",
    title="TPO's temperature",
    question="How much does TPO's temperature eta matter?",
    source="Table 5, Fig. 17",
    about=HOW + "Reverse copy with a reward for each correct token: token-level TPO at several eta, which "
    "sets how far the target departs from the old policy.",
    build="sequences",
    methods=("tpo_token",),
    settings=SETTINGS,
    grid={"eta": (0.25, 0.5, 1, 2, 4)},
    scales={
        "smoke": Scale(2, 4, TINY, {"eta": (1,)}),
        "quick": Scale(3, 150, grid={"eta": (0.5, 1, 4)}),
        "full": Scale(10, 1000),
    },
    series=("eta",),
    claims=(
        Claim("eta = 1 reaches 1% before eta = 4", "tpo_token", metric="steps",
              where={"eta": 1}, versus={"eta": 4}),
        Claim("Every eta ends below 2%", "tpo_token", rule="below", value=0.02),
    ),
)  # fmt: skip

DG_EPOCHS = Study(
    name="dg_epochs",
    title="DG with one and with four epochs",
    question="Does DG profit from four epochs per batch?",
    source="Fig. 18",
    about=HOW + "DG is meant for one gradient step per batch; here it takes one or four, on terminal reward "
    "(20 seeds, 2,000 episodes) and on the eight dense tasks (10 seeds, 1,000 episodes). The paper gives no "
    "H for the terminal panel; ours is 7.",
    build="sequences",
    methods=("dg",),
    settings=SETTINGS,
    grid={
        "task": (
            "terminal reverse_copy", *(f"{r} {t}" for r in ("bag", "sequential") for t in TARGETS)
        ),
        "epochs": (1, 4),
    },
    scales={
        "smoke": Scale(2, 4, TINY, {"task": ("terminal reverse_copy",)}),
        "quick": Scale(
            4, 400, {"H": 5}, {"task": ("terminal reverse_copy", "sequential flip")}
        ),
        "full": Scale(
            10, 1000,
            adjust={("task", "terminal reverse_copy"): {"H": 7, "seeds": 20, "episodes": 2000}},
        ),
    },
    series=("epochs",),
    claims=(
        Claim("On terminal reward four epochs are worse than one", "dg",
              where={"task": "terminal reverse_copy", "epochs": 1}, versus={"epochs": 4}),
    ),
)  # fmt: skip

DEMO_FULL = (
    "With 20 seeds and 1,000 steps (the study vocab, V = 2) the mean error is below 1% after 57 "
    "steps of TPO, 209 of DG and 370 of GRPO. PPO does not reach it."
)
"""What the demo's task gives with the paper's seeds and episodes."""

DEMO = Study(
    name="demo",
    title="Four methods on one task",
    question="Which method solves a small task in the fewest steps?",
    source="Table 1 in small",
    about="The task: reverse ten random bits, with a "
    "reward for each correct token, a dense reward. All methods get the same prompts. "
    + DEMO_FULL
    + " "
    + HOW
    + TOKEN_GROUPS,
    build="sequences",
    methods=("tpo_token", "grpo_token", "ppo", "dg"),
    settings=SETTINGS,
    scales={
        "smoke": Scale(2, 4, TINY),
        "quick": Scale(4, 100),
        "full": Scale(20, 1000),
    },
    claims=tuple(
        Claim(f"TPO reaches 1% error before {label}", "tpo_token", than=(name,), metric="steps")
        for name, label in (("grpo_token", "GRPO"), ("ppo", "PPO"), ("dg", "DG"))
    ),
    labels={"tpo_token": "TPO", "grpo_token": "GRPO"},
    x_label="step",
    extra=True,
)

STUDIES = (VOCAB, VARIATIONS)
LATER_STUDIES = (TEMPERATURE, DG_EPOCHS)
EXTRA_STUDIES = (DEMO,)

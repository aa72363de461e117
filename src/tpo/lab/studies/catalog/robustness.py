"""The paper's central claim: a target that is separate from the update makes the size of a step matter less."""

from __future__ import annotations

from tpo.declarations.study import ERROR, Scale, Study
from tpo.lab.studies.catalog.dense import HOW, SETTINGS, TINY

RATES = ("1e-4", "3e-4", "1e-3", "3e-3", "1e-2")
STEPS = tuple(
    f"{optimiser} {rate}{clip}"
    for optimiser in ("adam", "muon", "sgd")
    for rate in RATES
    for clip in ("", " clipped")
)
"""OPTIMISER RATE, with "clipped" where the gradient norm is clipped at 1; epochs as published."""
EPOCHS = tuple(f"muon 1e-3 {epochs} epochs" for epochs in (1, 4, 16))

STEP_ROBUSTNESS = Study(
    name="step_robustness",
    title="Learning rate, optimiser, clipping and epochs",
    question="Is TPO less sensitive to learning rate, optimiser, clipping and epochs?",
    source="the paper's section 1; not tested there",
    about=HOW
    + "Reverse copy of six bits with a reward per token (bag) or per answer (terminal). Five learning rates "
    "with Adam, Muon and SGD, the gradient norm clipped at 1 or not, at the published epochs; and 1, 4 and 16 "
    "epochs with Muon at 0.001. PPO and DG take one rollout per prompt. A setting learns if its error over the "
    "last tenth of the episodes is below 10%; `tools/step_robustness.py DIR` prints the share of settings that "
    "learn, the worst and the median one.",
    build="sequences",
    methods=("tpo", "grpo", "ppo", "dg", "group_pg"),
    settings={**SETTINGS, "H": 6},
    grid={"task": ("bag reverse_copy", "terminal reverse_copy"), "step": (*STEPS, *EPOCHS)},
    scales={
        "smoke": Scale(
            2,
            2,
            TINY,
            {"task": ("terminal reverse_copy",), "step": ("sgd 1e-2 clipped",)},
            ("tpo",),
        ),
        "quick": Scale(
            4,
            100,
            {"H": 4, "width": 16, "layers": 1},
            {"step": ("adam 1e-3", "muon 1e-3", "sgd 1e-3")},
        ),
        "full": Scale(4, 500),
    },
    measures=(ERROR,),
    threshold=0.1,
    extra=True,
)

STUDIES = (STEP_ROBUSTNESS,)

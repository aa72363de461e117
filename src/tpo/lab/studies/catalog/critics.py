"""The study of critics: methods that learn values beside methods that need none."""

from __future__ import annotations

from tpo.declarations.study import ERROR, EXPLAINED, Scale, Study
from tpo.lab.studies.catalog.dense import SETTINGS, TINY

CRITICS = Study(
    name="critics",
    title="With and without a critic",
    source="not in the paper",
    question="Does a critic pay on tasks of five tokens?",
    about="Reverse copy, with one reward for a fully correct "
    "answer (terminal) or one for each correct token (bag). PPO has a baseline per position. PPO with GAE, A2C "
    "and VAPO train a critic, a second network like the policy. VAPO's policy is frozen for its first 50 "
    "episodes, in which the critic is pretrained. Prompt-matched, TPO takes K rollouts of each prompt and the "
    "others one; interaction-matched, the others get K times the prompts and sqrt(K) times the learning rate. "
    "At quick scale the networks have one layer of width 32. No method was tuned for these tasks.",
    build="sequences",
    methods=("ppo", "ppo:advantage=gae", "a2c", "vapo", "vapo:alpha=1", "tpo"),
    settings={**SETTINGS, "H": 5},
    grid={
        "task": ("terminal reverse_copy", "bag reverse_copy"),
        "matching": ("prompt", "interaction"),
    },
    scales={
        "smoke": Scale(
            2, 4, TINY, {"task": ("bag reverse_copy",), "matching": ("prompt",)}, ("a2c",)
        ),
        "quick": Scale(4, 200, {"width": 32, "layers": 1}, {"matching": ("prompt",)}),
        "full": Scale(10, 1000),
    },
    measures=(ERROR, EXPLAINED),
    extra=True,
)

STUDIES = (CRITICS,)

"""The standard group: six scored candidates, and what each objective's gradient does with them."""

from __future__ import annotations

from typing import Any

import numpy as np

import tpo
from tpo.reports import bars

SCORES = (1.0, 1.0, 0.5, 0.0, 0.0, 0.0)
P_OLD = (0.35, 0.05, 0.20, 0.25, 0.10, 0.05)
P_MOVED = (0.40, 0.10, 0.20, 0.22, 0.06, 0.02)
"""One token each. Under the rollout policy, and under a policy that an update has moved towards the scores."""

CRITIC, GREEDY = 0.45, 1.0
"""What a critic says of the prompt (the expected score), and the score of the most probable candidate."""


def group() -> tpo.Groups:
    """The group with everything that some objective asks for."""
    log_p = np.log(P_OLD).reshape(1, -1, 1)
    return tpo.Groups(
        log_probs_old=log_p,
        scores=np.array([SCORES]),
        values=np.full_like(log_p, CRITIC),
        baseline=np.array([GREEDY]),
        tasks=np.zeros(1, dtype=int),
    )


def push(name: str, policy: tuple[float, ...]) -> np.ndarray:
    """[K] -dL/d log-prob of each candidate, under `policy`: above 0 its probability rises."""
    objective = tpo.objective(name)
    log_p = np.log(policy).reshape(1, -1, 1)
    return -objective.coefficients(log_p, objective.prepare(group()))[0, :, 0]


def figure(name: str) -> Any:
    """The push at the rollout policy and after an update, one pair of bars per candidate."""
    candidates = [f"s={s:g}, p={p:g}" for s, p in zip(SCORES, P_OLD, strict=True)]
    return bars(
        {"at the rollout policy": push(name, P_OLD), "after an update": push(name, P_MOVED)},
        candidates,
        title="Push on each candidate: -dL/d log-prob",
    )


def as_text(name: str) -> str:
    """The figure's numbers, for those who do not see it."""
    first, later = (
        ", ".join(f"{x + 0.0:+.2f}" for x in push(name, policy).round(2))
        for policy in (P_OLD, P_MOVED)
    )
    return f"At the rollout policy {first}; after an update {later}."

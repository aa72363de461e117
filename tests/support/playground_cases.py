"""The playground's numbers, computed with the library, for a policy that is one softmax over K candidates.

The tokens of a candidate share its log-probability evenly.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import tpo
from tpo.arrays import namespace
from tpo.objectives.target_matching import log_scores_of

# name in the playground -> (name in the library, options that the playground fixes)
NAMES: dict[str, tuple[str, dict[str, Any]]] = {
    **{name: (name, {}) for name in tpo.list_objectives()},
    "grpo": ("grpo", {"granularity": "sequence"}),
    "grpo_no_kl": ("grpo", {"granularity": "sequence", "beta": 0.0}),
    "grpo_token": ("grpo", {"granularity": "token"}),
}
# option in the playground -> option in the library, and the names that take it
TARGETS = ("tpo", "tpo_no_anchor", "tpo_outcomes", "lpo", "lpo_reverse", "lpo_js", "lpo_alpha")
GATED = ("group_pg", "dg", "reinforce", "cispo", "rloo", "maxrl")
LPOS = tuple(name for name in TARGETS if name.startswith("lpo"))
TAKES = {
    "eta": ("eta", TARGETS),
    "score": ("score", TARGETS),
    "clip": ("clip", ("ppo", "grpo", "grpo_no_kl", "grpo_token", "dr_grpo", *LPOS)),
    "beta": ("beta", ("grpo", "grpo_token")),
    "gateTemperature": ("gate_temperature", ("dg",)),
}


def objective(name: str, options: dict[str, Any]) -> tpo.Objective:
    """The library's objective for a name and options of the playground."""
    library_name, fixed = NAMES[name]
    chosen = {
        TAKES[key][0]: value for key, value in options.items() if name in TAKES[key][1] and value
    }
    return tpo.objective(library_name, **{**chosen, **fixed})


def tokens(log_p: np.ndarray, lengths: list[int]) -> np.ndarray:
    """[1, K, T] each candidate's log-probability shared evenly by its tokens; NaN in the padding."""
    mask = np.arange(max(lengths)) < np.asarray(lengths)[:, None]
    return np.where(mask, (log_p / np.asarray(lengths))[:, None], np.nan)[None]


def group_of(case: dict[str, Any]) -> tpo.Groups:
    old = tokens(np.log(case["pOld"]), case["lengths"])
    return tpo.Groups(
        log_probs_old=old, scores=np.asarray(case["scores"], float)[None], mask=~np.isnan(old)
    )


def push(case: dict[str, Any], log_p: np.ndarray) -> np.ndarray:
    """[K] -dL/d log p of each candidate."""
    rule, group = objective(case["name"], case["options"]), group_of(case)
    c = rule.coefficients(tokens(log_p, case["lengths"]), rule.prepare(group))
    return -np.sum(c[0], axis=-1) / np.asarray(case["lengths"])


def fitted(case: dict[str, Any], log_p: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """[K] the target q of a target objective, and the P that is fitted to it."""
    rule = objective(case["name"], case["options"])
    prepared = rule.prepare(group_of(case))
    log_scores = log_scores_of(namespace(prepared.q), tokens(log_p, case["lengths"]), prepared.rule)
    return prepared.q[0], np.exp(log_softmax(log_scores[0]))


def target_parts(case: dict[str, Any]) -> dict[str, np.ndarray]:
    """[K] u, exp(u/eta) and the anchor, exp of each candidate's log-score at p_old, or 1 without one."""
    rule = objective(case["name"], case["options"])
    prepared = rule.prepare(group_of(case))
    old = tokens(np.log(case["pOld"]), case["lengths"])
    log_scores = log_scores_of(namespace(prepared.q), old, prepared.rule)[0]
    u = tpo.standardize(np.asarray(case["scores"], float))
    anchored = case["name"] != "tpo_no_anchor"
    return {
        "u": u,
        "tilt": np.exp(u / case["options"]["eta"]),
        "anchor": np.exp(log_scores) if anchored else np.ones(len(u)),
        "q": prepared.q[0],
    }


def policy_parts(case: dict[str, Any], log_p: np.ndarray) -> dict[str, np.ndarray]:
    """[K] advantage and, where the objective has weights on log-probs, gate: means over each candidate's tokens."""
    rule, group = objective(case["name"], case["options"]), group_of(case)
    prepared = rule.prepare(group)
    advantages = np.broadcast_to(prepared.advantages, group.mask.shape)
    weights = np.broadcast_to(prepared.weights, group.mask.shape)
    found = {"advantage": np.mean(advantages[0], axis=-1, where=group.mask[0])}
    if case["name"] in GATED:
        c = rule.coefficients(tokens(log_p, case["lengths"]), prepared)
        gate = -c / np.where(weights * advantages == 0, np.nan, weights * advantages)
        found["gate"] = np.mean(gate[0], axis=-1, where=group.mask[0])
    return found


def log_softmax(x: np.ndarray) -> np.ndarray:
    x = x - x.max()
    return x - np.log(np.exp(x).sum())


def descent(case: dict[str, Any]) -> dict[str, list[Any]]:
    """p and the norm of the logits' gradient at the start of each epoch."""
    logits = np.log(case.get("start") or case["pOld"])
    path: dict[str, list[Any]] = {"p": [], "norms": []}
    for _ in range(case["epochs"] + 1):
        log_p = log_softmax(logits)
        up = push(case, log_p)
        direction = up - np.exp(log_p) * up.sum()
        path["p"].append(np.exp(log_p))
        path["norms"].append(np.linalg.norm(direction))
        logits = logits + case["step"] * direction
    return path

"""verl's reward function: the scorers of `tpo.llm`, in processes of their own and within a time limit.

Rows are data, which others may have written: a row names a scorer of `scorers.NAMED` or a dataset of
reasoning-gym. An import path, which would run any function, counts only if the config names it too.
"""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Any

from tpo.llm.rewards.pool import Scoring
from tpo.llm.rewards.scorers import NAMED

WORKERS = 2
"""processes of a scorer, in each of verl's reward workers"""
OPTION = "reward.custom_reward_function.reward_kwargs.scorer"
"""where verl's config names a scorer of the user's own"""


def compute_score(
    data_source: str,
    solution_str: str,
    ground_truth: str,
    extra_info: dict[str, Any] | None = None,
    timeout: float = 10.0,
    scorer: str | None = None,
    **_: Any,
) -> float:
    """The score of one completion; `ground_truth` is as `tpo.llm.verl.data` writes it.

    A completion that cannot be scored is NaN, which leaves it out of its group. Among the held-out rows it
    counts 0, because verl takes plain means of them. `timeout` in seconds and `scorer`, a module:function of
    your own, are verl's `reward.custom_reward_function.reward_kwargs`.
    """
    told = json.loads(ground_truth)
    _check(told["scorer"], scorer)
    scoring = _scoring(json.dumps(told["scorer"], sort_keys=True), told["threshold"], timeout)
    (score,) = scoring([solution_str], **{name: [value] for name, value in told["given"].items()})
    if score is None:
        return 0.0 if (extra_info or {}).get("split") == "test" else float("nan")
    return score


def _check(named: dict[str, Any], own: str | None) -> None:
    """Refuse an import path that comes from a row alone: it would run whatever function the row names."""
    name = named.get("name")
    if "dataset" in named or name in NAMED or (own is not None and name == own):
        return
    raise ValueError(
        f"a row's ground_truth names the scorer {name!r}, expected one of {', '.join(NAMED)}"
        + (f" or {own}, as {OPTION} says" if own is not None else "")
        + f". A function of your own is named in the config, not by data: if you trust it, set +{OPTION}={name}"
    )


@lru_cache
def _scoring(scorer: str, threshold: float | None, timeout: float) -> Scoring:
    spec = json.loads(scorer)
    columns = ("index",) if "dataset" in spec else ("answer",)
    return Scoring(spec, columns, timeout, WORKERS, threshold)

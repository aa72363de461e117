"""verl's reward function: the scorers of `tpo.llm`, in processes of their own and within a time limit."""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Any

from tpo.llm.scoring import Scoring

WORKERS = 2
"""processes of a scorer, in each of verl's reward workers"""


def compute_score(
    data_source: str,
    solution_str: str,
    ground_truth: str,
    extra_info: dict[str, Any] | None = None,
    timeout: float = 10.0,
    **_: Any,
) -> float:
    """The score of one completion; `ground_truth` is as `tpo.llm.verl.data` writes it.

    A completion that cannot be scored is NaN, which leaves it out of its group. Among the held-out rows it
    counts 0, because verl takes plain means of them. `timeout` in seconds is verl's
    `reward.custom_reward_function.reward_kwargs.timeout`.
    """
    told = json.loads(ground_truth)
    scoring = _scoring(json.dumps(told["scorer"], sort_keys=True), told["threshold"], timeout)
    (score,) = scoring([solution_str], **{name: [value] for name, value in told["given"].items()})
    if score is None:
        return 0.0 if (extra_info or {}).get("split") == "test" else float("nan")
    return score


@lru_cache
def _scoring(scorer: str, threshold: float | None, timeout: float) -> Scoring:
    spec = json.loads(scorer)
    columns = ("index",) if "dataset" in spec else ("answer",)
    return Scoring(spec, columns, timeout, WORKERS, threshold)

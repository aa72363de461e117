"""A reward function for verl: the scorers of `tpo.llm`, in processes of their own and within a time limit.

Rows are data, which others may have written. A row may name a scorer of `scorers.NAMED` or a dataset of
reasoning-gym. It may name an import path, which would run any function, only if the config names it too.
"""

from __future__ import annotations

import json
import re
from functools import lru_cache
from typing import Any

from tpo.llm.rewards.pool import Scoring
from tpo.llm.rewards.sandbox import Sandbox
from tpo.llm.rewards.scorers import NAMED
from tpo.llm.run_options import ScoringOptions
from tpo.options import declared

PLAIN = re.compile(r"[A-Za-z0-9_+*/ -]{0,64}")
"""A word, a name or an operator: nothing that calls a function or reaches an attribute."""
OPTION = "reward.custom_reward_function.reward_kwargs.scorer"
"""The option of verl's config that names a scorer of your own."""


def compute_score(
    data_source: str,
    solution_str: str,
    ground_truth: str,
    extra_info: dict[str, Any] | None = None,
    timeout: float = ScoringOptions.timeout,
    scorer: str | None = None,
    **more: Any,
) -> float:
    """The score of one completion; `ground_truth` is what `tpo.llm.verl.data` writes.

    A completion that cannot be scored is NaN, which leaves it out of its group. In a held-out row it is 0,
    because verl takes plain means of those. `timeout` (in seconds), `scorer` (a module:function of your own)
    and the fields of `Sandbox` are set in verl's `reward.custom_reward_function.reward_kwargs`.
    """
    row = json.loads(ground_truth)
    _check(row["scorer"], scorer)
    sandbox = Sandbox(**{k: more[k] for k in declared(Sandbox) if k in more})
    named = json.dumps(row["scorer"], sort_keys=True)
    scoring = _scoring(named, row["threshold"], timeout, sandbox)
    (score,) = scoring([solution_str], **{name: [value] for name, value in row["given"].items()})
    if score is None:
        return 0.0 if (extra_info or {}).get("split") == "test" else float("nan")
    return score


def _check(named: Any, own: str | None) -> None:
    """ValueError if a row alone could run code: by an import path, or by an option that a dataset evaluates."""
    name = named.get("name") if isinstance(named, dict) else named
    if not isinstance(named, dict) or not isinstance(name, str):
        raise ValueError(f"a row's ground_truth holds the scorer {named!r}, expected its name")
    if "dataset" in named:
        _check_plain(named)
        return
    if name in NAMED or (own is not None and name == own):
        return
    raise ValueError(
        f"a row's ground_truth names the scorer {name!r}, expected one of {', '.join(NAMED)}"
        + (f" or {own}, as {OPTION} says" if own is not None else "")
        + ". A function of your own is named in the config, not in the data: if you trust it, set "
        + f"+{OPTION}={name}"
    )


def _check_plain(value: Any) -> None:
    """ValueError for text that could be an expression: datasets of reasoning-gym evaluate some options."""
    if isinstance(value, dict):
        _check_plain([*value, *value.values()])
    elif isinstance(value, list):
        for one in value:
            _check_plain(one)
    elif isinstance(value, str) and not PLAIN.fullmatch(value):
        raise ValueError(
            f"a row's ground_truth holds {value!r} among the options of a dataset, expected "
            "numbers and plain words"
        )


@lru_cache
def _scoring(scorer: str, threshold: float | None, timeout: float, sandbox: Sandbox) -> Scoring:
    spec = json.loads(scorer)
    columns = ("index",) if "dataset" in spec else ("answer",)
    return Scoring(spec, columns, timeout, ScoringOptions.scorers, threshold, sandbox)

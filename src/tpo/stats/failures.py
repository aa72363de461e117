"""Where seeds fail completely or not at all: the typical seed and the failures, side by side."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from tpo.stats.curves import solved
from tpo.stats.repetition import FAILED, splits
from tpo.stats.significance import holm


class Ends(NamedTuple):
    """The final errors [seeds] of a method in one setting; a run that two settings share has one key."""

    method: str
    setting: str
    key: str
    errors: np.ndarray


def typical_and_failed(
    ends: Sequence[Ends], reference: str, threshold: float
) -> list[dict[str, Any]]:
    """A row per method, the reference first: runs, failed, p, solved, in how many settings its median is lower.

    p: of as many failures as the reference has, by Fisher's exact test, corrected for the number of methods
    (Holm). Each run counts once. No rows unless seeds split and there are several methods.
    """
    methods = sorted({end.method: None for end in ends}, key=lambda name: name != reference)
    if len(methods) < 2 or not any(splits(end.errors) for end in ends):
        return []
    runs = {
        name: np.concatenate(
            [*{end.key: end.errors for end in ends if end.method == name}.values()]
        )
        for name in methods
    }
    first, *rivals = methods
    p = holm(np.array([_fisher(runs[name], runs[first]) for name in rivals]))
    corrected = dict(zip(rivals, p.tolist(), strict=True))
    return [
        {
            "method": name,
            "runs": len(errors),
            "failed": int((errors > FAILED).sum()),
            "p": corrected.get(name),
            "solved": solved(errors, threshold),
            "lower": None if name == first else _lower_medians(ends, name, first),
        }
        for name, errors in runs.items()
    ]


def _fisher(errors: np.ndarray, others: np.ndarray) -> float:
    from scipy.stats import fisher_exact

    table = [[int((x > FAILED).sum()), int((x <= FAILED).sum())] for x in (errors, others)]
    return float(fisher_exact(table).pvalue)


def _lower_medians(ends: Sequence[Ends], method: str, reference: str) -> str:
    """`2 of 4`: in how many settings the method's median is below the reference's; a pair counts once."""
    known = {end.setting: end for end in ends if end.method == reference}
    lower = {
        (end.key, other.key): bool(np.median(end.errors) < np.median(other.errors))
        for end in ends
        if end.method == method and (other := known.get(end.setting))
    }
    return f"{sum(lower.values())} of {len(lower)}"

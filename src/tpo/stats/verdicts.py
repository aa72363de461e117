"""Claims and their verdicts over seeds: holds, does not hold, or undecided.

A comparison is paired over seeds. It is significant if Student's 95% interval of the mean difference excludes
zero, or if all differences of at least UNANIMOUS seeds have one sign. Then the claim holds or does not hold.
If the interval contains zero but lies within LEVEL of the larger mean, the two are level. That is enough for
"has the lowest error", but not for "is first" (STRICT). Every other comparison is undecided, and so is one
with fewer than LEAST seeds or with an unfinished run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from tpo.stats.intervals import difference, student_interval

LEAST = 3
"""The smallest number of seeds for a verdict."""
UNANIMOUS = 6
"""By chance so many differences have one sign 1 time in 32. One outlier makes the interval wide."""
LEVEL = 0.05
"""How far apart two level means may be, relative to the larger one."""
COUNTS = ("steps", "rollouts")
STRICT = (*COUNTS, "held-out error")
"""Metrics for which level is not enough."""
HOLDS, FAILS, OPEN = "holds", "does not hold", "undecided"

Coords = Mapping[str, Any]


@dataclass(frozen=True)
class Claim:
    """A sentence of the paper or of ours, and how to test it.

    rule "less": `method` has a smaller `metric` than each of `than` (all other methods where empty)
    in every setting that matches `where`; with `versus`, it is compared with itself, or `than`, in the
    setting that differs by those coordinates. Rules "below" and "above": against the number `value`.
    metric: "end" (error over the last episodes), "steps" or "rollouts" (to the threshold), "held-out error",
    or another curve's end.
    """

    text: str
    method: str
    rule: str = "less"
    than: tuple[str, ...] = ()
    where: Coords = field(default_factory=dict)
    versus: Coords = field(default_factory=dict)
    metric: str = "end"
    value: float = 0.0

    def __post_init__(self) -> None:
        if self.rule not in ("less", "below", "above"):
            raise ValueError(f"rule is {self.rule!r}, expected 'less', 'below' or 'above'")


@dataclass(frozen=True)
class MethodResult:
    """One method in one setting: whether it finished, and each metric per seed."""

    coords: Coords
    method: str
    label: str
    done: bool
    values: Callable[[str], np.ndarray]


class Ruling(NamedTuple):
    """The verdict on one comparison, and the numbers behind it in words."""

    status: str
    words: str


def verdict(claim: Claim, results: Sequence[MethodResult]) -> dict[str, str]:
    """{"claim", "status", "detail"}: every comparison must hold; one that fails refutes the claim."""
    rulings = list(_rulings(claim, results))
    statuses = [ruling.status for ruling in rulings]
    agreed = statuses and set(statuses) == {HOLDS}
    status = FAILS if FAILS in statuses else HOLDS if agreed else OPEN
    return {"claim": claim.text, "status": status, "detail": _detail(status, rulings)}


def _detail(status: str, rulings: Sequence[Ruling]) -> str:
    if not rulings:
        return "none of the runs that this claim is about has been made"
    telling = [r.words for r in rulings if r.status == status] or [r.words for r in rulings]
    more = f"; and {len(telling) - 4} more" if len(telling) > 4 else ""
    return "; ".join(telling[:4]) + more


def _rulings(claim: Claim, results: Sequence[MethodResult]) -> Iterable[Ruling]:
    for left in results:
        if left.method != claim.method or not _matches(left.coords, claim.where):
            continue
        if claim.rule == "less":
            for right in _rivals(claim, left, results):
                yield compare(left, right, claim.metric)
        else:
            yield _against_value(left, claim)


def _rivals(
    claim: Claim, left: MethodResult, results: Sequence[MethodResult]
) -> Iterable[MethodResult]:
    coords = {**left.coords, **claim.versus}
    names = claim.than or ((claim.method,) if claim.versus else ())
    for other in results:
        chosen = other.method in names if names else other.method != claim.method
        if chosen and other is not left and dict(other.coords) == coords:
            yield other


def _matches(coords: Coords, where: Coords) -> bool:
    return all(coords.get(key) == value for key, value in where.items())


def compare(left: MethodResult, right: MethodResult, metric: str) -> Ruling:
    """Whether left's metric is the smaller one."""
    place = _place(left.coords)
    if not (left.done and right.done):
        return Ruling(OPEN, f"{place}{left.label} against {right.label}: not finished")
    a, b = _paired(left.values(metric), right.values(metric))
    other = (
        right.label
        if left.coords == right.coords
        else f"{right.label} ({_place(right.coords)[:-2]})"
    )
    words = f"{place}{left.label} {_shown(metric, a)} against {other} {_shown(metric, b)} (n = {len(a)})"
    if len(a) < LEAST:
        return Ruling(OPEN, f"{words}, fewer than {LEAST} seeds")
    low, high = difference(a, b)
    level = LEVEL * max(abs(a.mean()), abs(b.mean()))
    many = len(a) >= UNANIMOUS
    if high < 0 or (many and (a < b).all()):
        return Ruling(HOLDS, words)
    if low > 0 or (many and (a > b).all()):
        return Ruling(FAILS, words)
    if metric not in STRICT and -level <= low and high <= level:
        return Ruling(HOLDS, f"{words}, level")
    return Ruling(OPEN, f"{words}, within the noise")


def _paired(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The seeds that both have, where both have a number."""
    n = min(len(a), len(b))
    both = ~(np.isnan(a[:n]) | np.isnan(b[:n]))
    return a[:n][both], b[:n][both]


def _against_value(left: MethodResult, claim: Claim) -> Ruling:
    place = _place(left.coords)
    if not left.done:
        return Ruling(OPEN, f"{place}{left.label}: not finished")
    x = left.values(claim.metric)
    words = f"{place}{left.label} {_shown(claim.metric, x)} (n = {len(x)})"
    if len(x) < LEAST:
        return Ruling(OPEN, f"{words}, fewer than {LEAST} seeds")
    low, high = student_interval(x)
    under, over = high < claim.value, low > claim.value
    if claim.rule == "above":
        under, over = over, under
    return Ruling(HOLDS if under else FAILS if over else OPEN, words)


def _shown(metric: str, x: np.ndarray) -> str:
    """The mean, and the median in brackets, as text."""
    if not len(x):
        return "without a number"
    middle, centre = float(np.mean(x)), float(np.median(x))
    if metric in COUNTS:
        return f"{middle:.0f} {metric} (median {centre:.0f})"
    if metric in ("end", "held-out error"):
        return f"{100 * middle:.3g}% (median {100 * centre:.3g}%)"
    return f"{middle:.3g} (median {centre:.3g})"


def _place(coords: Coords) -> str:
    words = ", ".join(f"{key} = {value}" for key, value in coords.items())
    return f"{words}: " if words else ""

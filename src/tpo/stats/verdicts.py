"""Claims and their verdicts over seeds: holds, does not hold, or undecided.

A claim is about one or more comparisons, each paired over seeds. A comparison is significant if two equal
methods would differ as much 5 times in 100 (`tpo.stats.significance.p_values`).

- *holds*: each comparison is significantly on the claimed side. This needs no correction for their number,
  because the weakest one decides. If the 95% interval of a difference lies within LEVEL of the larger
  mean, the two are level. That is enough for "has the lowest error", but not for "is first" (STRICT).
- *does not hold*: a comparison is significantly on the other side, corrected for their number (Holm), or all
  comparisons with one rival together are.
- *undecided*: neither, or a run is unfinished or has fewer than LEAST seeds.

A claim about a fixed number is tested by the range of the mean (`tpo.stats.repetition.mean_range`). Steps are
compared up to the horizon: a seed that does not get there counts as one step more.

A verdict has one short sentence, every comparison that decides it in words, and effect and power by rival.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from tpo.stats.intervals import student_interval
from tpo.stats.repetition import mean_range, splits
from tpo.stats.significance import (
    LEAST,
    LEVEL_OF_TEST,
    Against,
    detectable,
    holm,
    p_values,
    refuted,
    stacked,
)
from tpo.stats.verdict_words import COUNTS, amount, place, shown

RULES = 2
"""The version of these rules, for the history of claims."""
LEVEL = 0.05
"""How far apart two level means may be, relative to the larger one."""
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
    """One method in one setting: whether it finished, and each metric per seed.

    Steps and rollouts are infinite for a seed that does not get there, and count as `censored` in a comparison.
    """

    coords: Coords
    method: str
    label: str
    done: bool
    values: Callable[[str], np.ndarray]
    censored: float = np.inf


class Ruling(NamedTuple):
    """The verdict on one comparison, the numbers behind it in words, and its differences [seeds] from `rival`.

    Negative differences are on the claimed side. A comparison without enough seeds has none.
    """

    status: str
    words: str
    rival: str = ""
    differences: np.ndarray = np.zeros(0)


def verdict(claim: Claim, results: Sequence[MethodResult]) -> dict[str, Any]:
    """{"claim", "status", "detail", "reasons", "against"}.

    detail: what decides it, in a sentence. reasons: each comparison with this verdict, in words. against: a
    dict per rival, with the fields of `Against`; empty for a claim about a fixed number.
    """
    if claim.rule == "less":
        rulings = list(_comparisons(claim, results))
    else:
        rulings = list(_against_value(claim, results))
    tested = [ruling for ruling in rulings if len(ruling.differences)]
    against = _by_rival(tested) if claim.rule == "less" else []
    wrong = False
    if claim.rule == "less" and tested:
        differences = stacked([ruling.differences for ruling in tested])
        wrong = bool(refuted(differences, [ruling.rival for ruling in tested]))
        rulings = _corrected(rulings)
    statuses = [ruling.status for ruling in rulings]
    agreed = statuses and set(statuses) == {HOLDS}
    status = FAILS if wrong or FAILS in statuses else HOLDS if agreed else OPEN
    telling = [ruling.words for ruling in rulings if ruling.status == status]
    return {
        "claim": claim.text,
        "status": status,
        "detail": _sentence(rulings, telling, against),
        "reasons": telling if len(rulings) > 1 else [],
        "against": [one._asdict() for one in against],
    }


def _corrected(rulings: Sequence[Ruling]) -> list[Ruling]:
    """The rulings; those on the other side only before the correction are undecided, and come first."""
    tested = [ruling for ruling in rulings if len(ruling.differences)]
    corrected = holm(np.array([float(p_values(ruling.differences)) for ruling in tested]))
    chance = {
        id(ruling)
        for ruling, p in zip(tested, corrected, strict=True)
        if ruling.status == FAILS and p > LEVEL_OF_TEST
    }
    note = f", not significant among {len(tested)} comparisons"
    undecided = [
        ruling._replace(status=OPEN, words=ruling.words + note)
        for ruling in tested
        if id(ruling) in chance
    ]
    return undecided + [ruling for ruling in rulings if id(ruling) not in chance]


def _by_rival(tested: Sequence[Ruling]) -> list[Against]:
    """In the order in which rivals first occur."""
    groups: dict[str, list[Ruling]] = {}
    for ruling in tested:
        groups.setdefault(ruling.rival, []).append(ruling)
    return [
        Against.of(
            rival, [one.differences for one in found], sum(one.status == HOLDS for one in found)
        )
        for rival, found in groups.items()
    ]


def _sentence(rulings: Sequence[Ruling], telling: Sequence[str], against: Sequence[Against]) -> str:
    """The comparison that decides; of several, how many hold and the first that decides."""
    if not rulings:
        return "none of the runs that this claim is about has been made"
    if len(rulings) == 1:
        return rulings[0].words + (f", p = {against[0].p:.1g}" if against else "")
    hold = sum(ruling.status == HOLDS for ruling in rulings)
    if hold == len(rulings):
        return f"All {hold} comparisons hold, such as {telling[0]}"
    counted = f"{hold} of {len(rulings)} comparisons hold"
    if telling:
        return f"{counted}. One that does not: {telling[0]}"
    return f"{counted}; those with one rival are on the other side together"


def _comparisons(claim: Claim, results: Sequence[MethodResult]) -> Iterable[Ruling]:
    for left in _subjects(claim, results):
        for right in _rivals(claim, left, results):
            yield compare(left, right, claim.metric)


def _subjects(claim: Claim, results: Sequence[MethodResult]) -> list[MethodResult]:
    return [
        one for one in results if one.method == claim.method and _matches(one.coords, claim.where)
    ]


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
    """Whether left's metric is the smaller one; not yet corrected for the number of comparisons."""
    where = place(left.coords)
    if not (left.done and right.done):
        return Ruling(OPEN, f"{where}{left.label} against {right.label}: not finished")
    a, b = _paired(left.values(metric), right.values(metric))
    other = (
        right.label
        if left.coords == right.coords
        else f"{right.label} ({place(right.coords)[:-2]})"
    )
    n = int((~np.isnan(a)).sum())
    words = f"{where}{left.label} {shown(metric, a)} against {other} {shown(metric, b)} (n = {n})"
    if n < LEAST:
        return Ruling(OPEN, f"{words}, fewer than {LEAST} seeds")
    if metric in COUNTS:
        a, b = np.minimum(a, left.censored), np.minimum(b, right.censored)
    found = a - b
    status, note = _status(found, max(abs(np.nanmean(a)), abs(np.nanmean(b))), metric)
    return Ruling(status, words + note, right.label, found)


def _status(found: np.ndarray, size: float, metric: str) -> tuple[str, str]:
    """The verdict on these differences of two means, the larger of which is `size`, and a note on it."""
    known = found[~np.isnan(found)]
    if p_values(known) <= LEVEL_OF_TEST:
        return (HOLDS if known.mean() < 0 else FAILS), ""
    low, high = student_interval(known)
    if metric not in STRICT and -LEVEL * size <= low and high <= LEVEL * size:
        return HOLDS, ", level"
    return OPEN, f", within the noise (80% power from {amount(metric, detectable(known))})"


def _paired(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The seeds that both have; NaN in both where one has no number."""
    n = min(len(a), len(b))
    both = ~(np.isnan(a[:n]) | np.isnan(b[:n]))
    return np.where(both, a[:n], np.nan), np.where(both, b[:n], np.nan)


def _against_value(claim: Claim, results: Sequence[MethodResult]) -> Iterable[Ruling]:
    subjects = _subjects(claim, results)
    split = any(splits(one.values(claim.metric)) for one in results if one.done)
    for left in subjects:
        where = place(left.coords)
        if not left.done:
            yield Ruling(OPEN, f"{where}{left.label}: not finished")
            continue
        x = left.values(claim.metric)
        x = x[~np.isnan(x)]
        words = f"{where}{left.label} {shown(claim.metric, x)}"
        if len(x) < LEAST:
            yield Ruling(OPEN, f"{words} (n = {len(x)}), fewer than {LEAST} seeds")
            continue
        low, high = mean_range(x, split)
        least, most = mean_range(x, split, len(subjects))
        under, over = (high < claim.value, least > claim.value)
        if claim.rule == "above":
            under, over = (low > claim.value, most < claim.value)
        ends = " to ".join(amount(claim.metric, float(end)) for end in (low, high))
        status = HOLDS if under else FAILS if over else OPEN
        yield Ruling(status, f"{words}, mean within {ends} (n = {len(x)})")

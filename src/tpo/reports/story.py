"""The story of a study: what was asked, and its answer in a few sentences of numbers."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from tpo.reports.labels import inline
from tpo.reports.styles import family
from tpo.reports.wording import number, tally
from tpo.stats.significance import LEAST

Study = Mapping[str, Any]
Row = Mapping[str, Any]

TOLD = ("CE", "cross-entropy")
"""Methods that are told the answer: a reference, in no ranking."""
NAMED = 4
"""A sentence names at most this many methods."""
NEVER = float("inf")
HELD_OUT = "final sampled accuracy %"
"""The metric by which language models are ranked."""


def answer(study: Study) -> list[str]:
    """What was found, in one or two sentences of numbers; empty before any run has finished."""
    rows = [r for r in (study.get("table") or {}).get("rows") or () if r.get("done") is not False]
    if ranked := [row for row in rows if row.get("metric") == HELD_OUT and row.get("n")]:
        of_models = [_accuracies(ranked), *_speed(study), _few_seeds(ranked)]
        return [sentence for sentence in of_models if sentence]
    lowest = _lowest_error(rows)
    speed = [_first_seeds(rows, study), _reached(rows, study), lowest]
    told: list[str | None] = [
        *(
            speed
            if asks_speed(study)
            else [lowest, _not_significant(study), _first_below(rows, study)]
        ),
        _held(study),
        _agreed(rows),
        _few_seeds(rows),
    ]
    return [sentence for sentence in told if sentence]


def _few_seeds(rows: Sequence[Row]) -> str | None:
    """A warning if no row has enough seeds for a verdict."""
    seeds = max((int(row.get("n") or 0) for row in rows if _sampled(row)), default=0)
    if not 0 < seeds < LEAST:
        return None
    return f"{seeds} seed{'s' if seeds > 1 else ''}: too few for a verdict, which takes at least {LEAST}."


def _sampled(row: Row) -> bool:
    """Whether seeds differ: not in an exact computation."""
    return row.get("last100") is not None or row.get("metric") == HELD_OUT


def _held(study: Study) -> str | None:
    """The claims that hold, of a study without learning curves."""
    if any(not panel.get("kind") for panel in study.get("panels") or ()):
        return None
    held = [str(v["claim"]) for v in study.get("verdicts") or () if v["status"] == "holds"]
    return f"{'; '.join(held)}." if held else None


def _agreed(rows: Sequence[Row]) -> str | None:
    """The verdicts on the published numbers; nothing before one is compared."""
    if not any(row.get("agreement") for row in rows):
        return None
    return f"Published numbers, {tally(rows, 'with too few seeds')}."


def asks_speed(study: Study) -> bool:
    """Whether the first claim of the study counts steps."""
    return study.get("asks") == "steps"


def _not_significant(study: Study) -> str | None:
    """Why the first claim, if it is about final errors, can be undecided whoever has the lowest mean."""
    for claim in list(study.get("verdicts") or ())[:1]:
        against = claim.get("against") or ()
        if study.get("asks") != "end" or claim["status"] != "undecided" or not against:
            continue
        compared = sum(int(one["settings"]) for one in against)
        hold = sum(int(one["hold"]) for one in against)
        found = (
            f"{hold} of {compared} comparisons hold at 95%"
            if compared > 1
            else "the noise is larger"
        )
        return f"A lower mean can be chance: “{claim['claim']}” is undecided, since {found}."
    return None


def _lowest_error(rows: Sequence[Row]) -> str | None:
    values = {_place(row): row["last100"] for row in rows if row.get("last100") is not None}
    groups = _contests(values)
    if len(groups) == 1:
        return f"Lowest mean final error: {_ranking(groups[0], lambda v: f'{number(v)}%')}."
    return _wins(groups, "has the lowest mean final error")


def _first_below(rows: Sequence[Row], study: Study) -> str | None:
    """Whose mean over seeds is first below the threshold."""
    return _first(rows, study, "steps_to_threshold", "mean error")


def _first_seeds(rows: Sequence[Row], study: Study) -> str | None:
    """Whose median seed is first below the threshold."""
    return _first(rows, study, "steps_median", "error (median seed)")


def _first(rows: Sequence[Row], study: Study, key: str, of: str) -> str | None:
    threshold, unit = study.get("threshold"), str((study.get("x") or {}).get("label") or "step")
    values = {_place(row): _steps(row[key]) for row in rows if row.get(key) is not None}
    if threshold is None or not any(value < NEVER for value in values.values()):
        return None
    level = f"{number(100 * threshold)}% {of}"
    groups = _contests(values)
    if len(groups) == 1:
        ranked = _ranking(groups[0], lambda v: f"after {number(v)}", f" {unit}s")
        return f"First below {level}: {ranked}."
    return _wins(groups, f"is first below {level}")


def _reached(rows: Sequence[Row], study: Study) -> str | None:
    """How many seeds of each method get below the threshold at some time, in a study of one setting."""
    known = [row for row in rows if row.get("reached") is not None]
    if not known or len({_place(row)[0] for row in known}) > 1 or study.get("threshold") is None:
        return None
    counted = {_place(row)[1]: f"{row['reached']} of {row['n']}" for row in known}
    words = _listed([f"{name} on {seeds}" for name, seeds in counted.items()])
    return f"Seeds that reached {number(100 * study['threshold'])}%: {words}."


def _steps(value: object) -> float:
    return float(value) if isinstance(value, (int, float)) else NEVER


Place = tuple[tuple[tuple[str, str], ...], str]


def _place(row: Row) -> Place:
    """The setting and the method of a row."""
    setting = tuple((str(key), str(value)) for key, value in (row.get("coords") or {}).items())
    return setting, inline(str(row.get("label") or row.get("method")))


def _contests(values: Mapping[Place, float]) -> list[dict[str, float]]:
    """Per setting, the value of each method; a study of one method compares the values of its last axis."""
    known = {place: value for place, value in values.items() if place[1] not in TOLD}
    if len({method for _, method in known}) == 1:
        known = {
            (setting[:-1], " = ".join(setting[-1])): value
            for (setting, _), value in known.items()
            if setting
        }
    groups: dict[tuple[tuple[str, str], ...], dict[str, float]] = {}
    for (setting, name), value in known.items():
        groups.setdefault(setting, {})[name] = value
    return [group for group in groups.values() if len(group) > 1]


def _ranking(values: Mapping[str, float], words: Callable[[float], str], unit: str = "") -> str:
    """The best few in order, equal ones together; then who never got there, and how many more there are."""
    tied: dict[float, list[str]] = {}
    for name, value in sorted(values.items(), key=lambda item: item[1]):
        tied.setdefault(value, []).append(name)
    never = tied.pop(NEVER, [])
    shown = [f"{_listed(names)} {words(value)}" for value, names in list(tied.items())[:NAMED]]
    shown[0] += unit
    rest = len(tied) - len(shown)
    parts = [
        ", then ".join(filter(None, [shown[0], _listed(shown[1:])])),
        f"{rest} more" if rest > 0 else "",
        f"{_listed(never) if len(never) <= NAMED else f'{len(never)} others'} never"
        if never
        else "",
    ]
    return "; ".join(part for part in parts if part)


def _wins(groups: Sequence[Mapping[str, float]], does: str) -> str | None:
    """In how many settings each method comes first; methods that tie for the first place both count."""
    finite = [group for group in groups if min(group.values()) < NEVER]
    if not finite:
        return None
    wins = Counter(
        name for group in finite for name, value in group.items() if value == min(group.values())
    )
    (best, most), *others = wins.most_common()
    rest = _listed([f"{name} in {count}" for name, count in others[: NAMED - 1]])
    nobody = len(groups) - len(finite)
    return (
        f"{best} {does} in {most} of {len(groups)} settings"
        + (f", {rest}" if rest else "")
        + (f"; no method is in the other {nobody}" if nobody else "")
        + "."
    )


def _accuracies(rows: Sequence[Row]) -> str:
    ranked = sorted(rows, key=lambda row: -row["iqm"])
    best = ranked[0]
    rival = next(
        (r for r in ranked if family(str(r["method"])) != family(str(best["method"]))), None
    )
    before = ", then" if len(ranked) == 2 else "; best with another objective:"
    second = f"{before} {_accuracy(rival)}" if rival else ""
    return f"Highest final accuracy of samples for held-out prompts: {_accuracy(best)}{second}."


def _accuracy(row: Row) -> str:
    low, high = row.get("iqm_low"), row.get("iqm_high")
    ends = "" if low is None or high is None else f" [{number(low)}, {number(high)}]"
    return f"{inline(str(row.get('label') or row['method']))} {number(row['iqm'])}%{ends}"


def _speed(study: Study) -> list[str]:
    """The fewest rollouts to the baseline's level, relative to the baseline."""
    methods = [m for m in study.get("methods") or () if m.get("ratio") is not None]
    baseline = next((m for m in methods if m["baseline"]), None)
    others = [m for m in methods if not m["baseline"]]
    if baseline is None or not others:
        return []
    best = min(others, key=lambda m: float(m["ratio"]))
    return [
        f"{inline(best['label'])} needs {number(best['ratio'])} times the rollouts of "
        f"{inline(baseline['label'])} "
        f"to reach {number(100 * best['threshold'])}%."
    ]


def _listed(words: Sequence[str]) -> str:
    """`a, b and c`"""
    return " and ".join(filter(None, [", ".join(words[:-1]), *words[-1:]]))


# ---- what was asked --------------------------------------------------------------------------


def question(study: Study) -> tuple[str, str]:
    """What was asked, and how: the study's question, or its first sentence if that is one, and the rest.

    Without a question the rest is what is particular to the study among those of the report.
    """
    about = str(study.get("about") or "")
    if asked := str(study.get("question") or ""):
        return asked, about
    first, *others = sentences(about) or [""]
    if first.endswith("?"):
        return first, " ".join(others)
    own = [s for s in sentences(about) if s not in study.get("common", ())]
    return "", " ".join(own) or about


# ---- words that several studies share --------------------------------------------------------


def sentences(text: str) -> list[str]:
    """The sentences of a paragraph."""
    return [s for s in re.split(r"(?<=[.?!])\s+(?=[A-ZΑ-Ω0-9])", text) if s]


def common_sentences(texts: Iterable[str], least: int = 3) -> set[str]:
    """The sentences that at least so many of the texts have."""
    found = Counter(sentence for text in texts for sentence in dict.fromkeys(sentences(text)))
    return {sentence for sentence, times in found.items() if times >= least}

"""Colours of methods: one per family in every figure, and a style for each line of one figure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import count

HUES = 8
"""The number of colours, `.m0` to `.m7` in style.css; colour-blind readers can tell them apart."""

DASHES = 4
"""The number of kinds of lines, `.d0` (solid) to `.d3` in style.css."""

OWN = {
    "tpo": 0,
    "grpo": 1,
    "ppo": 2,
    "dg": 3,
    "grpo_no_kl": 4,
    "tpo_no_anchor": 5,
    "ce": 6,
    "group_pg": 7,
}
"""The hue of each method."""

ALIASES = {
    "tpo_token": "tpo",
    "tpo_outcomes": "tpo",
    "grpo_token": "grpo",
    "reinforce": "group_pg",
    "pg": "group_pg",
    "dr_grpo": "dg",
    "gspo": "ppo",
    "lpo": "tpo_no_anchor",
    "maxrl": "ce",
}
"""Methods that take another method's hue, in figures without that method."""


def css_classes(series: Iterable[tuple[str, str]]) -> dict[str, str]:
    """The CSS classes of each label, from (method, label) pairs in their order in the study.

    The hue is that of the family, the method without its options, and the dash tells its lines apart. A family
    has the same hue in every figure, unless another family of the figure has it. A method without options has
    the solid line, those of `OWN` before others. More than four lines of a family take unused hues; more than
    32 lines repeat.
    """
    pairs = list(dict.fromkeys(series))
    hues = _hues(pairs)
    found: dict[str, tuple[int, int]] = {}
    for method, label in sorted(
        pairs, key=lambda pair: (not _plain(*pair), family(pair[0]) not in OWN)
    ):
        hue = hues[family(method)]
        free = (one for one in _slots(hue, set(hues.values())) if one not in found.values())
        found.setdefault(label, next(free, (hue, 0)))
    return {label: f"m{hue} d{dash}" for _, label in pairs for hue, dash in [found[label]]}


def family(method: str) -> str:
    """The method without its options."""
    return method.split(":")[0]


def _plain(method: str, label: str) -> bool:
    """Whether the label is the plain name of the method."""
    return slug(label) == method


def _hues(pairs: Iterable[tuple[str, str]]) -> dict[str, int]:
    """The hue of each family: its own or its relative's if no other family has it, else an unused one."""
    names = list(dict.fromkeys(family(method) for method, _ in pairs))
    hues: dict[str, int] = {}
    for known in (OWN, {name: OWN[relative] for name, relative in ALIASES.items()}):
        for name in names:
            if name in known and name not in hues and known[name] not in hues.values():
                hues[name] = known[name]
    unused = (hue for hue in count() if hue % HUES not in hues.values() or hue >= HUES)
    for name in names:
        if name not in hues:
            hues[name] = next(unused) % HUES
    return hues


def _slots(hue: int, taken: set[int]) -> Iterator[tuple[int, int]]:
    """(hue, dash) in the order in which the lines of a family take them."""
    others = [other for other in range(HUES) if other not in taken]
    rest = [other for other in range(HUES) if other in taken and other != hue]
    for one in (hue, *others, *rest):
        for dash in range(DASHES):
            yield one, dash


def slug(label: object) -> str:
    """`GRPO no KL` -> `grpo_no_kl`"""
    words = "".join(c if c.isalnum() else " " for c in str(label).lower()).split()
    return "_".join(words)

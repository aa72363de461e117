"""Colours of methods: the same in every study, and different for all lines of one study."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import count

HUES = 8
"""The number of colours, `.m0` to `.m7` in style.css; colour-blind readers can tell them apart."""

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

ALIASES = {"tpo_token": "tpo", "grpo_token": "grpo", "reinforce": "group_pg", "pg": "group_pg"}
"""Methods that take another method's hue, in studies without that method."""


def css_classes(series: Iterable[tuple[str, str]]) -> dict[str, str]:
    """The CSS classes of each label, from (method, label) pairs in their order in the study.

    A method's hue goes to the label that is its plain name, else to the first of its labels. The other
    labels take unused hues, then dashed lines.
    """
    pairs = list(dict.fromkeys(series))
    plain = [(method, label) for method, label in pairs if slug(label) == method]
    relatives = [(ALIASES.get(method, ""), label) for method, label in (*plain, *pairs)]
    slots: dict[str, int] = {}
    for method, label in (*plain, *pairs, *relatives):
        hue = OWN.get(method)
        if hue is not None and label not in slots and hue not in slots.values():
            slots[label] = hue
    free = (slot for slot in count() if slot not in slots.values())
    for _, label in pairs:
        if label not in slots:
            slots[label] = next(free)
    return {label: f"m{slot % HUES} d{slot // HUES % 4}" for label, slot in slots.items()}


def slug(label: object) -> str:
    """`GRPO no KL` -> `grpo_no_kl`"""
    words = "".join(c if c.isalnum() else " " for c in str(label).lower()).split()
    return "_".join(words)

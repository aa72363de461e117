"""Which colour a method has: the same in every study, and never the same twice in one."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import count

HUES = 8
"""Colours that stay apart for readers who see fewer, `.m0` to `.m7` in style.css."""

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
"""A method's own hue."""

ALIASES = {"tpo_token": "tpo", "grpo_token": "grpo", "reinforce": "group_pg", "pg": "group_pg"}
"""Methods that take the hue of a relative, in studies where that one does not appear."""


def css_classes(series: Iterable[tuple[str, str]]) -> dict[str, str]:
    """The CSS classes of each label, from (method, label) in the order of their appearance.

    A method's own hue goes to the label that is its plain name, else to the first of its labels; the
    other labels take hues that are free, then dashes.
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

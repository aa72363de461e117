"""Text from elsewhere, as one line that a terminal and a log can show."""

from __future__ import annotations

LONGEST = 1000
"""Characters that are kept."""


def one_line(text: str) -> str:
    """At most LONGEST characters: white space is one blank, a control character is written as its code."""
    words = " ".join(text[: 10 * LONGEST].split())
    return "".join(map(_printable, words[:LONGEST]))[:LONGEST]


def _printable(character: str) -> str:
    return character if character.isprintable() else ascii(character)[1:-1]

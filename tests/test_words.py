"""One vocabulary, the field's: words that only this project used do not come back."""

import argparse
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tpo.cli import parser

ROOT = Path(__file__).parent.parent
INSTEAD = {
    r"\bsilent (step|batch|group|episode|question|prompt)\w*": "zero-gradient step, batch without an informative group",
    r"skip[_-]silent|\bsilent_steps": "skip_zero_gradient, zero_gradient_steps",
    r"\b(without|no|any) (a )?signal\b": "without an informative group, zero variance",
    r"\bspeaks?\b": "has a gradient, is informative",
    r"\b(free|held) ties\b|\bties=.?(free|held)\b|\b(hold|holds|holding) ties\b": "pooled, anchored ties",
    r"\b(un)?cut(s|ting)?\b(?!-)": "clip, clipped, unclipped; interrupted; split",
    r"\bwall\b(?!.(time|clock))": "clip bound",
    r"\bfell\b|\bled nowhere\b|\bat nothing\b|\bto nothing\b": "collapsed, did not improve, dropped",
    r"\b(stands?|stood|standing)\b": "is, reaches; final accuracy",
    r"\b(one|two|three|four|eight|several|more|many|later|few|first|second|all|\d+) pass(es)?\b(?! (of|through) the model)": "epochs (per batch)",
    r"(?<!Schulz )(?<!power )\biterations?\b": "epochs (TRL's num_iterations)",
    r"\bseeds? decides?\b|\b(?<!un)decided\b|\bdecides nothing\b": "significant at 95%, not significant",
    r"\blanes?\b": "data-parallel shards, workers",
    r"\berrands?\b": "assignment",
    r"\bspread[_-]weights\b|\bspread(ing)? (the )?weights\b": "weight dithering",
    r"\bcondens(e|es|ed|ing)\b|\bcoupling\b": "objective structure",
    r"\bmend(s|ed|ing)?\b": "fix",
    r"\bis no (YAML|JSON|number|file|folder)\b": "is not valid YAML, is not a number",
    r"none of more that are known": "unknown option",
    r"\brooms?\b": "package",
}
"""A word of our own, as a pattern, and the field's word for it."""


def coined(text: str) -> list[str]:
    """Every coined word of a text, with its line and what to write instead."""
    lines = enumerate(text.splitlines(), 1)
    return [
        f"{number}: {found[0]!r} -> {instead}"
        for number, line in lines
        for pattern, instead in INSTEAD.items()
        for found in re.finditer(pattern, line, re.IGNORECASE)
    ]


def pages() -> list[Path]:
    """What people read: the pages at the top, the documentation and the notes that are printed in it."""
    docs = ROOT / "docs"
    written = [*docs.rglob("*.md"), *docs.rglob("*.rst")]
    generated = (docs / "_build", docs / "reference/objectives")
    kept = (path for path in written if not any(map(path.is_relative_to, generated)))
    return sorted([*ROOT.glob("*.md"), *kept])


def sources() -> list[Path]:
    """Code of ours, but for the lists of former names, which older files still use."""
    files = [
        *(ROOT / "src").rglob("*.py"),
        *(ROOT / "src").rglob("*.js"),
        *(ROOT / "examples").glob("*.py"),
    ]
    return sorted(path for path in files if path.name != "former_names.py")


def commands(of: argparse.ArgumentParser, name: str = "tpo") -> Iterator[tuple[str, str]]:
    """Each command and its help."""
    yield name, of.format_help()
    for action in of._actions:
        if isinstance(action, argparse._SubParsersAction):
            for word, below in action.choices.items():
                yield from commands(below, f"{name} {word}")


@pytest.mark.parametrize("path", [*pages(), *sources()], ids=lambda p: str(p.relative_to(ROOT)))
def test_pages_and_sources_use_the_words_of_the_field(path: Path) -> None:
    assert coined(path.read_text()) == []


def test_help_texts_use_the_words_of_the_field() -> None:
    found = {name: coined(text) for name, text in commands(parser())}
    assert len(found) > 10
    assert {name: words for name, words in found.items() if words} == {}


def test_a_coined_word_is_found() -> None:
    assert coined("fine\nsilent steps with free ties") == [
        "2: 'silent steps' -> zero-gradient step, batch without an informative group",
        "2: 'free ties' -> pooled, anchored ties",
    ]

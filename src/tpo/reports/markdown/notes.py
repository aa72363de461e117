"""What people wrote beside the evidence: a note per study or comparison, and the groups of an index page.

A note is FOLDER/NAME.md, next to the JSON file of that name. All its parts are optional:

    # Title

    Question: one paragraph.

    Answer: one paragraph.

    TPO's side: max_grad_norm=0.0

    Remarks, of any length.

TPO's side: the option that a plan gave to TPO, in a comparison that has TPO without it as well.

FOLDER/index.md orders the index page: under each `## Heading` a paragraph, then a list of names.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

INDEX = "index"
LAB_NOTES = "`docs/research/lab-notes.md`"


@dataclass(frozen=True)
class Note:
    """The words on one page. Each part may be empty."""

    title: str = ""
    question: str = ""
    answer: str = ""
    remarks: str = ""
    own_side: str = ""


@dataclass(frozen=True)
class Group:
    """Part of an index page: a heading, a paragraph and the names of its pages in order."""

    heading: str
    about: str
    names: tuple[str, ...]


def notes(folder: Path) -> dict[str, Note]:
    """The note of every file in the folder but its index, by name."""
    paths = (path for path in sorted(folder.glob("*.md")) if path.stem != INDEX)
    return {path.stem: note(path.read_text(encoding="utf-8")) for path in paths}


def note(text: str) -> Note:
    """The parts of a note."""
    left = text.strip()
    found = {}
    for name, pattern in (
        ("title", r"# ([^\n]+)"),
        ("question", r"Question: (.+?)"),
        ("answer", r"Answer: (.+?)"),
        ("own_side", r"TPO's side: (.+?)"),
    ):
        if match := re.match(rf"{pattern}(?:\n\n+|\Z)", left, re.DOTALL):
            found[name], left = " ".join(match[1].split()), left[match.end() :]
    return Note(**found, remarks=left.strip())


def check(where: str, given: Iterable[str], names: Iterable[str]) -> None:
    """A name that is not in the evidence is an error."""
    known = list(names)
    if unknown := sorted({*given} - {*known}):
        raise ValueError(
            f"{where}: {', '.join(unknown)} is not in the evidence, expected {', '.join(known) or 'none'}"
        )


def groups(path: Path, names: Iterable[str]) -> list[Group]:
    """The groups that the file lists; names that it does not list are a last group."""
    text = path.read_text(encoding="utf-8") if path.is_file() else ""
    known = list(names)
    found = []
    for piece in re.split(r"^## ", text, flags=re.MULTILINE)[1:]:
        heading, _, body = piece.partition("\n")
        listed = re.findall(r"^- `?(\w+)`?$", body, re.MULTILINE)
        about = re.sub(r"^- .*\n?", "", body, flags=re.MULTILINE).strip()
        check(str(path), listed, known)
        found.append(Group(heading.strip(), about, tuple(listed)))
    rest = tuple(name for name in known if all(name not in group.names for group in found))
    return [*found, *([Group("Others" if found else "All", "", rest)] if rest else [])]


def linked(text: str, here: str, places: dict[str, str]) -> str:
    """The text with a link for every name in backticks that has a page; `here` is the page's own name.

    places: the path of a page by its name, relative to the page that shows the text.
    """

    def link(found: re.Match[str]) -> str:
        name = found[1]
        return f"[{found[0]}]({places[name]})" if name in places and name != here else found[0]

    text = text.replace(LAB_NOTES, "[lab notes](../lab-notes.md)")
    return re.sub(r"(?<!\[)`(\w+)`", link, text)

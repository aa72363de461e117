"""Pages of studies, the notes on them and the README's section, made of evidence."""

import re

import pytest

from support.kept_runs import call, page_of
from tpo.lab import studies
from tpo.reports import publish
from tpo.reports.gather import gather
from tpo.reports.markdown import notes, sections, study_page


def published_cells(page):
    """The published column of every table on the page."""
    found = []
    for table in re.findall(r"(?:^\|.*\n)+", page, re.MULTILINE):
        head, _, *rows = [line.strip("| \n").split(" | ") for line in table.splitlines()]
        if "published" in head:
            found += [row[head.index("published")] for row in rows]
    return [value for value in found if value != "–"]


@pytest.mark.parametrize("results", ["none", "kept"])
def test_every_published_number_is_on_the_page_once(results, kept):
    page = page_of(gather([kept]) if results == "kept" else [])
    expected = [
        p.value.replace("<", "&lt;").replace(">", "&gt;") for p in studies.published_numbers()
    ]
    assert sorted(published_cells(page)) == sorted(expected)
    assert len(expected) == 206


def test_what_was_not_run_says_so():
    page = page_of([])
    assert "0 have been run" in study_page.tally(sections.sections([], {}))
    assert "Published numbers (Table 3, Fig. 8), 40 in all: 40 not run." in page
    assert "| 7 | prompt | TPO | final error % | 6.9 | not run |" in page
    assert "    tpo run terminal --scale full" in page


NOTE = """# Long answers

Question: Who learns?

Answer: TPO,
mostly.

Seeds are bimodal, as in `vocab` (`docs/research/lab-notes.md`).
"""


def test_a_note_is_on_its_page_and_a_wrong_name_is_an_error(tmp_path):
    (tmp_path / "terminal.md").write_text(NOTE)
    (tmp_path / "vocab.md").write_text("Fine.\n")
    (tmp_path / "index.md").write_text("# Order\n\n## First\n\n- vocab\n")
    written = notes.notes(tmp_path)
    assert written["terminal"].answer == "TPO, mostly."
    assert written["vocab"] == notes.Note(remarks="Fine.")
    page = page_of([], written)
    own = page[page.index("# Long answers") : page.index("# Without the anchor")]
    assert "**Question.** Who learns?\n\n**Answer.** TPO, mostly." in own
    assert "as in [`vocab`](vocab.md) ([lab notes](../lab-notes.md))." in own
    with pytest.raises(ValueError, match="termnal is not in the evidence"):
        page_of([], {"termnal": notes.Note(remarks="x")})


def test_an_index_lists_groups_then_the_rest(tmp_path):
    path = tmp_path / "index.md"
    path.write_text("# Order\n\n## First\n\nWhy.\n\n- b\n")
    assert notes.groups(path, ["a", "b"]) == [
        notes.Group("First", "Why.", ("b",)),
        notes.Group("Others", "", ("a",)),
    ]
    with pytest.raises(ValueError, match="b is not in the evidence, expected a"):
        notes.groups(path, ["a"])
    found = sections.sections([], {})
    page = study_page.index(found, [notes.Group("First", "Why.", ("vocab",))])
    assert "## First\n\nWhy.\n\n| study |" in page
    asked = studies.get_study("vocab").question
    assert f"| [Vocabulary size](vocab.md) | *{asked}* | 0 of 16 | – | Table 1, Fig. 6 |" in page


def test_a_smaller_number_of_seeds_is_noted(kept):
    page = page_of(gather([kept]))
    assert "Fewer seeds than at full scale: 4 of 100 seeds for PG; DG; GRPO; TPO." in page


def test_the_readme_section_is_replaced_and_the_rest_left_alone(tmp_path, kept):
    docs = tmp_path / "docs"
    (tmp_path / "README.md").write_text(
        f"before\n{publish.BEGIN}\nA line before.\n{publish.END}\nafter\n"
    )
    assert call(str(kept), "--docs", str(docs)) == 0
    text = (tmp_path / "README.md").read_text()
    assert text.startswith(f"before\n{publish.BEGIN}\n")
    assert text.endswith(f"{publish.END}\nafter\n")
    assert "A line before." not in text
    assert call("--check", "--docs", str(docs)) == 0
    (docs / "research/studies/talk.md").write_text("something else")
    assert call("--check", "--docs", str(docs)) == 1

"""docs/research/results.md and the README's section, made of evidence."""

import re

import pytest

from support.kept_runs import call, page_of
from tpo.lab import studies
from tpo.reports import publish
from tpo.reports.gather import gather


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
    assert f"**{len(expected)} published numbers.**" in page
    assert len(expected) == 206


def test_what_was_not_run_says_so():
    page = page_of([])
    assert "0 have been run" in page
    assert "| 7 | prompt | TPO | final error % | 6.9 | not run |" in page
    assert "    tpo run terminal --scale full" in page


def test_notes_are_in_their_section_and_a_wrong_name_is_an_error(tmp_path):
    path = tmp_path / "notes.md"
    path.write_text("# Notes\n\n## terminal\n\nSeeds are bimodal.\n\n## vocab\n\nFine.\n")
    notes = publish.notes(path)
    assert notes == {"terminal": "Seeds are bimodal.", "vocab": "Fine."}
    page = page_of([], notes)
    own = page[page.index("## Terminal reward") : page.index("## Without the anchor")]
    assert "Seeds are bimodal." in own
    with pytest.raises(ValueError, match="has remarks on termnal, expected names of studies"):
        page_of([], {"termnal": "x"})


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
    (docs / "research/results.md").write_text("something else")
    assert call("--check", "--docs", str(docs)) == 1

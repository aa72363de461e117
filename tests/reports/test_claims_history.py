"""The history of claims: a line per change of a verdict, and the table on the research page."""

import pytest

from tpo.reports.markdown import claims_history, front_page
from tpo.stats.verdicts import RULES


def found(status):
    verdicts = [{"claim": "TPO, first", "status": status}, {"claim": "b", "status": "holds"}]
    return [{"name": "vocab", "verdicts": verdicts, "table": {"rows": []}}]


def write(folder, entries):
    (folder / claims_history.FILE).write_text(claims_history.text(entries))


def test_a_line_is_added_when_a_verdict_changes_and_only_then(tmp_path):
    write(tmp_path, claims_history.updated(tmp_path, found("holds")))
    before = claims_history.read(tmp_path)
    assert [(e.study, e.claim, e.verdict) for e in before] == [
        ("vocab", "TPO, first", "holds"), ("vocab", "b", "holds"),
    ]  # fmt: skip
    assert claims_history.updated(tmp_path, found("holds")) == before
    *same, new = claims_history.updated(tmp_path, found("undecided"))
    assert same == before
    assert (new.claim, new.verdict, new.rules) == ("TPO, first", "undecided", str(RULES))
    assert claims_history.changes([*same, new]) == [(before[0], new)]


def test_the_research_page_shows_what_changed(tmp_path):
    write(tmp_path, claims_history.updated(tmp_path, found("holds")))
    entries = claims_history.updated(tmp_path, found("undecided"))
    kinds = front_page.placeholders([], {}, {}, entries)
    page = front_page.page("{{history}}", kinds)
    assert f"| [vocab](studies/vocab.md) | TPO, first | holds | undecided | {RULES} |" in page
    same = front_page.placeholders([], {}, {}, entries[:2])
    assert front_page.page("{{history}}", same) == "None so far."


@pytest.mark.parametrize("content", ["", "{}", "study,claim\na,b\n", "\x00\x01"])
def test_a_damaged_history_is_named(tmp_path, content):
    (tmp_path / claims_history.FILE).write_text(content)
    with pytest.raises(ValueError, match=r"claims\.csv does not have the columns study, claim"):
        claims_history.read(tmp_path)

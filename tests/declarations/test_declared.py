"""A study is plain data: what a store keeps of it is the whole study, so that a report needs no other file."""

import json
import subprocess
import sys
from dataclasses import fields

import pytest

from tpo.declarations.study import Study
from tpo.lab import studies


def plain(value):
    """The value with lists for tuples, as JSON has them."""
    return json.loads(json.dumps(value))


@pytest.mark.parametrize("name", studies.list_studies())
def test_a_study_is_read_back_whole(name):
    study = studies.get_study(name)
    again = Study.from_json(plain(study.to_json()))
    assert plain(again.to_json()) == plain(study.to_json())
    data = ("settings", "scales")  # settings hold tuples, which stay lists
    same = [f.name for f in fields(Study) if f.name not in data]
    assert [getattr(again, n) for n in same] == [getattr(study, n) for n in same]


def test_published_numbers_are_those_of_the_study_and_none_is_lost():
    held = [
        number for name in studies.list_studies() for number in studies.get_study(name).published
    ]
    others = [p for p in studies.published_numbers() if p.study == "language_models"]
    assert len(held) + len(others) == len(studies.published_numbers())
    assert len(studies.get_study("terminal").published) > 5


READS = """
import sys
from tpo.reports.summary import summarise
(found,) = [one for one in summarise(sys.argv[1]) if one["name"] == "tabular_single"]
published = [row for row in found["table"]["rows"] if row["published"]]
print(len(published), len(found["verdicts"]), [m for m in sys.modules if m.startswith("tpo.lab")])
"""


def test_a_report_reads_a_store_without_the_lab(store):
    found = subprocess.run(
        [sys.executable, "-c", READS, str(store)], capture_output=True, text=True, check=False
    )
    numbers, claims, modules = found.stdout.split(maxsplit=2)
    assert modules.strip() == "[]", found.stderr
    study = studies.get_study("tabular_single")
    assert int(claims) == len(study.claims)
    assert (int(numbers) > 0) == any(p.metric.startswith("final") for p in study.published)

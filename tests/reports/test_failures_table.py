"""The table of typical seeds and complete failures, in the summary, on the page and in the report."""

import numpy as np

from tpo.lab.studies import get_study
from tpo.reports.html.tables import failed
from tpo.reports.load import CellResult, series_of
from tpo.reports.markdown import report_page
from tpo.reports.summary import failures
from tpo.reports.tables import rows


def cell(method, errors, **coords):
    study = get_study("terminal")
    curves = {"error": np.repeat(np.array(errors)[:, None], 3, axis=1)}
    series = series_of(study, curves)
    return CellResult("", coords, method, method.upper(), True, len(errors), series)


SPLIT = [cell("grpo", [0.0, 0.0, 1.0], H=7), cell("tpo", [0.0, 0.02, 0.02], H=7)]
FINE = [cell("grpo", [0.0, 0.0, 0.5], H=7), cell("tpo", [0.0, 0.02, 0.02], H=7)]


def test_a_study_with_failing_seeds_shows_them_beside_the_medians():
    found = {"complete_failures": failures(get_study("terminal"), SPLIT)}
    lines = report_page.failed(found).splitlines()
    assert lines[0] == "### Typical seed and complete failures"
    assert lines[4] == "| TPO | 3 | 0 | – | 1 | – |"
    assert lines[5] == "| GRPO | 3 | 1 | 1 | 2 | 1 of 1 |"
    html = str(failed(found))
    assert "Typical seed and complete failures" in html
    assert '<td class="number" data-label="lower median">1 of 1</td>' in html


def test_a_study_without_failing_seeds_has_no_such_table():
    found = {"complete_failures": failures(get_study("terminal"), FINE)}
    assert report_page.failed(found) == ""
    assert failed(found) is None


def test_one_split_cell_widens_the_ranges_of_its_study():
    _, split = rows(get_study("terminal"), SPLIT, ())
    _, fine = rows(get_study("terminal"), FINE, ())
    assert split["ours"] == fine["ours"]
    assert split["high"] > 60 > fine["high"]
    assert (split["failed"], fine["failed"]) == (0, None)


def test_steps_of_the_median_seed_are_beside_those_of_the_mean_curve():
    (row,) = rows(get_study("terminal"), [cell("tpo", [0.0, 0.0, 1.0], H=7)], ())
    assert (row["steps_to_threshold"], row["steps_median"], row["reached"]) == ("never", 1, 2)
    (row,) = rows(get_study("terminal"), [cell("tpo", [0.0, 1.0, 1.0], H=7)], ())
    assert (row["steps_median"], row["reached"]) == ("never", 1)

"""Thinned curves, the rows of tables, and what unfinished or uneven runs show."""

import numpy as np
import pytest

from tpo.declarations.published import Published
from tpo.lab.studies import get_study, published_numbers
from tpo.reports.load import CellResult, series_of
from tpo.reports.panels import named
from tpo.reports.series import measured, thinned
from tpo.reports.tables import rows
from tpo.reports.wording import columns
from tpo.storage.numbers import number


def loaded(name, y, method="tpo", done=True, **coords):
    series = series_of(get_study(name), {"error": np.asarray(y, float)})
    return CellResult("key", coords, method, method.upper(), done, len(y), series)


def test_a_long_curve_is_averaged_over_windows():
    # 6 points into 3 windows of 2
    x, y = thinned(np.arange(1, 7), np.array([[0.0, 2, 4, 6, 8, 10]]), points=3)
    assert x.tolist() == [2, 4, 6]
    assert y.tolist() == [[1, 5, 9]]


def test_windows_that_do_not_divide_the_curve_lose_no_point():
    x, y = thinned(np.arange(1, 8), np.ones((2, 7)), points=3)
    assert x[-1] == 7
    assert y == pytest.approx(np.ones((2, 3)))


def test_a_short_curve_is_left_alone():
    x, y = thinned(np.array([200, 400]), np.array([[0.5, 0.25]]))
    assert (x.tolist(), y.tolist()) == ([200, 400], [[0.5, 0.25]])


def test_coordinates_in_words():
    words = named({"H": 7, "matching": "prompt", "target": "reverse_copy"})
    assert words == "H = 7, prompt-matched, reverse copy"


def test_numbers_for_json():
    assert number(0.123456789) == 0.12346
    assert number(float("nan")) is None


def test_a_measure_is_read_where_it_was_measured():
    curves = {"test_error": np.array([[np.nan, 0.5, np.nan, -5e-8]])}
    x, y = measured(curves, "test_error")
    assert (x.tolist(), y.tolist()) == ([2, 4], [[0.5, 0.0]])
    assert measured(curves, "error") is None
    assert measured({"error": np.full((2, 3), np.nan)}, "error") is None


def test_statistics_of_a_row_by_hand():
    # last errors 0, .02, .5, .9: mean 35.5, median 26, the middle two for the interquartile mean
    y = np.array([[1, 0.0], [1, 0.02], [1, 0.5], [1, 0.9]])
    (row,) = rows(get_study("terminal"), [loaded("terminal", y, H=5, matching="prompt")], ())
    assert (row["mean"], row["median"], row["iqm"]) == pytest.approx((35.5, 26, 26))
    assert (row["solved"], row["n"], row["best"]) == (1, 4, 35.5)
    assert row["steps_to_threshold"] == "never"
    assert (row["metric"], row["published"]) == ("final error %", None)


def test_counts_of_seeds_are_headed_by_what_they_count_and_at_which_threshold():
    # mnist counts below 5%: one seed gets there and relapses, one stays, two never do
    y = np.array([[0.04, 0.2], [0.2, 0.03], [0.3, 0.3], [0.05, 0.05]])
    series = series_of(get_study("mnist"), {"test_error": y})
    found = rows(get_study("mnist"), [CellResult("key", {}, "tpo", "TPO", True, 4, series)], ())
    shown = {column.title: column.text(found[0]) for column in columns(found)}
    assert shown["reached 5%"] == "2 of 4"
    assert shown["below 5% at the end"] == "1 of 4"
    assert shown["median steps"] == "never"


def test_the_published_metric_decides_what_ours_is():
    y = np.array([[0.5, 0.005, 0.02], [0.5, 0.001, 0.04]])
    number_ = Published("vocab", {"V": "2"}, "tpo_token", "steps to 1%", "58", "Table 1")
    (row,) = rows(get_study("vocab"), [loaded("vocab", y, "tpo_token", V=2)], (number_,))
    assert (row["published"], row["ours"], row["steps_to_threshold"]) == ("58", 2, 2)
    assert row["mean"] == pytest.approx(3.0)


def test_a_ranked_table_starts_with_the_lowest_error_and_ends_with_none():
    curves = [np.full((2, 3), 0.5), np.full((2, 3), 0.2), np.full((2, 3), 0.1)]
    curves[1][0] = np.nan
    cells = [loaded("compare", y, f"m{i}") for i, y in enumerate(curves)]
    assert [row["method"] for row in rows(get_study("compare"), cells, ())] == ["M2", "M0", "M1"]


@pytest.mark.parametrize(
    ("value", "low", "high"),
    [("6.9", 6.85, 6.95), ("14", 13.5, 14.5), ("-0.45", -0.455, -0.445), ("+0.25", 0.245, 0.255),
     ("~90", 85, 95), ("~0.96", 0.955, 0.965), ("~85-87", 84.5, 87.5), (">95", 95, np.inf),
     ("<2.3", -np.inf, 2.3), ("-", np.inf, np.inf)],
)  # fmt: skip
def test_what_a_printed_number_may_stand_for(value, low, high):
    assert Published("s", {}, "m", "x", value, "").range == pytest.approx((low, high))


def test_two_seeds_agree_with_nothing():
    number_ = Published(
        "terminal", {"H": "5", "matching": "prompt"}, "tpo", "final error %", "0.0", ""
    )
    two, three = (loaded("terminal", np.zeros((n, 3)), H=5, matching="prompt") for n in (2, 3))
    assert [r["agreement"] for r in rows(get_study("terminal"), [two, three], (number_,))] == [
        None,
        "agrees",
    ]


def test_steps_that_are_never_taken_read_never():
    number_ = Published("vocab", {"V": "2"}, "ppo", "steps to 1%", "-", "Table 1")
    (row,) = rows(get_study("vocab"), [loaded("vocab", np.ones((3, 4)), "ppo", V=2)], (number_,))
    assert (row["ours"], row["low"], row["high"], row["agreement"]) == (
        "never",
        "never",
        "never",
        "agrees",
    )


def test_a_number_at_an_episode_and_the_share_of_groups_without_success():
    errors = np.zeros((3, 400))
    errors[:, 399] = [0.1, 0.2, 0.6]
    row, final = rows(
        get_study("multi_epoch"), [loaded("multi_epoch", errors)], published_numbers()
    )
    assert (row["metric"], row["ours"]) == ("error % at 400", pytest.approx(30.0))
    assert final["metric"] == "final error %"
    curves = {"error": np.ones((3, 2)), "success": np.array([[0.1, 0.5]] * 3)}
    series = series_of(get_study("informative_groups"), curves)
    cell = CellResult("key", {}, "tpo", "TPO", True, 3, series)
    (row,) = rows(get_study("informative_groups"), [cell], published_numbers())
    assert (row["ours"], row["agreement"]) == (pytest.approx(90.0), "agrees")


def test_every_published_number_of_steps_is_counted_at_its_studys_threshold():
    steps = [p for p in published_numbers() if p.metric.startswith("steps")]
    assert len(steps) > 50
    for one in steps:
        assert one.metric == f"steps to {100 * get_study(one.study).threshold:g}%"

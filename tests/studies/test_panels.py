"""Curves thinned and named for a page, and what an unfinished or uneven run shows."""

import numpy as np
import pytest

from tpo.results.loaded import Loaded
from tpo.results.panels import named, number, thinned
from tpo.results.tables import rows
from tpo.studies import study


def loaded(curves, method="tpo", done=True, **coords):
    return Loaded("key", coords, method, method.upper(), curves, done, 0.0)


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
    part = loaded({"test_error": np.array([[np.nan, 0.5, np.nan, -5e-8]])})
    x, y = part.curve("test_error")
    assert (x.tolist(), y.tolist()) == ([2, 4], [[0.5, 0.0]])
    assert part.curve("error")[1].shape == (1, 0)


def test_statistics_of_a_row_by_hand():
    # last errors 0, .02, .5, .9: mean 35.5, median 26, the middle two for the interquartile mean
    y = np.array([[1, 0.0], [1, 0.02], [1, 0.5], [1, 0.9]])
    (row,) = rows(study("terminal"), [loaded({"error": y}, H=5, matching="prompt")], ())
    assert (row["mean"], row["median"], row["iqm"]) == pytest.approx((35.5, 26, 26))
    assert (row["solved"], row["n"], row["best"]) == (1, 4, 35.5)
    assert row["steps_to_threshold"] is None
    assert (row["metric"], row["published"]) == ("final error %", None)


def test_the_published_metric_decides_what_ours_is():
    from tpo.studies.published import Published

    y = np.array([[0.5, 0.005, 0.02], [0.5, 0.001, 0.04]])
    number_ = Published("vocab", {"V": "2"}, "tpo_token", "steps to 1%", "58", "Table 1")
    (row,) = rows(study("vocab"), [loaded({"error": y}, "tpo_token", V=2)], (number_,))
    assert (row["published"], row["ours"], row["steps_to_threshold"]) == ("58", 2, 2)
    assert row["mean"] == pytest.approx(3.0)


def test_a_ranked_table_starts_with_the_lowest_error_and_ends_with_none():
    curves = [np.full((2, 3), 0.5), np.full((2, 3), 0.2), np.full((2, 3), 0.1)]
    curves[1][0] = np.nan
    parts = [loaded({"error": y}, f"m{i}") for i, y in enumerate(curves)]
    assert [row["method"] for row in rows(study("compare"), parts, ())] == ["M2", "M0", "M1"]

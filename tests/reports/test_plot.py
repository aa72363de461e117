"""Figures from numbers: what a notebook shows."""

from dataclasses import replace
from xml.etree import ElementTree

import numpy as np
import pytest

from tpo.reports import bars, lines, side_by_side
from tpo.reports.svg.axes import Axis

SVG = "{http://www.w3.org/2000/svg}"


def test_a_line_is_the_mean_over_seeds_with_its_standard_error() -> None:
    (panel,) = lines({"TPO": np.array([[0.0, 4.0], [2.0, 8.0]])}, xs=[10, 20]).panels
    (mark,) = panel.marks
    # standard error of (0, 2): sqrt(2) / sqrt(2) = 1; of (4, 8): sqrt(8) / sqrt(2) = 2
    assert (mark.xs, mark.ys, mark.error) == ([10.0, 20.0], [1.0, 6.0], [1.0, 2.0])


def test_one_run_is_drawn_from_step_1_without_a_band() -> None:
    (panel,) = lines({"p": [0.1, 0.5, 0.9]}, x="step").panels
    assert panel.marks[0].xs == [1, 2, 3]
    assert set(panel.marks[0].error) == {0.0}
    assert panel.x == Axis("step")


def test_bars_need_a_value_for_every_name() -> None:
    assert len(bars({"u": [1, -1]}, ["a", "b"]).panels[0].marks[0].ys) == 2
    with pytest.raises(ValueError, match="'u' has 1 values for 2 names"):
        bars({"u": [1]}, ["a", "b"])


def test_figures_side_by_side_share_one_legend() -> None:
    left, right = (lines({"TPO": [1, 2], "GRPO": [2, 1]}, title=t) for t in ("a", "b"))
    both = side_by_side(left, right)
    assert [panel.title for panel in both.panels] == ["a", "b"]
    assert [label for label, _ in both.legend] == ["TPO", "GRPO"]
    assert ElementTree.fromstring(both._repr_svg_()).tag.endswith("svg")
    with pytest.raises(ValueError, match="'b' has different colours"):
        side_by_side(lines({"a": [1], "b": [2]}), lines({"b": [1], "c": [2]}))


def test_a_narrow_figure_keeps_the_size_of_its_text() -> None:
    usual = bars({"TPO": [0.1, 0.2], "GRPO": [0.3, 0.4]}, ["a", "b"])
    narrow = replace(usual, width=400, height=230)
    root = ElementTree.fromstring(narrow.svg())
    assert root.get("viewBox", "").startswith("0 0 400 ")
    assert root.get("width") == "400"
    ends = [float(r.get("x", 0)) + float(r.get("width", 0)) for r in root.iter(f"{SVG}rect")]
    assert max(ends) == 400
    styles = [next(ElementTree.fromstring(f.svg()).iter(f"{SVG}style")) for f in (usual, narrow)]
    assert styles[0].text == styles[1].text

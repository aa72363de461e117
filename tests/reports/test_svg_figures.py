"""The SVG figures of studies and of comparisons."""

import re
import xml.etree.ElementTree as ET
from typing import Any

import pytest

from tpo.lab import studies
from tpo.lab.execution.runner import Request, run
from tpo.reports.gather import gather
from tpo.reports.labels import readable
from tpo.reports.svg import llm_figure
from tpo.reports.svg.axes import Axis, AxisScale
from tpo.reports.svg.draw import Figure, Mark, Panel
from tpo.reports.svg.figures import figure


@pytest.mark.parametrize("name", ["tabular_single", "talk", "mnist_mechanism", "staleness"])
def test_a_figure_is_a_picture_without_scripts_for_both_kinds_of_page(kept, store_dir, name):
    folder = kept
    if name in ("staleness", "mnist_mechanism"):
        run(Request(studies.get_study(name), "smoke"), folder := store_dir)
    (result,) = [r for r in gather([folder]) if r.study.name == name]
    text = figure(result).svg()
    tags = {element.tag.partition("}")[2] for element in ET.fromstring(text).iter()}
    assert tags <= {"svg", "title", "style", "rect", "g", "path", "text", "circle"}
    assert "prefers-color-scheme:dark" in text
    drawn = re.findall(r'class="(?:line|bar)"', text)
    assert len(drawn) >= sum(cell.done for cell in result.cells)
    assert "nan" not in text


def test_curves_end_where_the_last_point_is():
    line = Mark("line", "m0 d0", [0, 50, 100], [1.0, 0.1, 0.01], [0, 0, 0])
    panel = Panel("", Axis("step"), Axis("error", log=True, percent=True), [line])
    text = Figure("f", [panel], [("TPO", "m0 d0")]).svg()
    # axes from (46, bottom) to (width - 12, 24): one decade is half of the height
    (d,) = re.findall(r'd="(M46 [^"]*)" class="line"', text)
    steps = re.findall(r"l([\d.-]+) ([\d.-]+)", d)
    assert steps[0] == steps[1]
    assert "100%" in text
    assert "1%" in text


def test_labels_are_text(kept):
    panel = Panel("<script>", Axis("&"), Axis(""), [])
    assert "&lt;script&gt;" in Figure("t", [panel], [("<b>", "m0 d0")]).svg()


@pytest.mark.parametrize(
    ("low", "high", "ticks"),
    [(0.004, 0.8, ["0.1%", "1%", "10%", "100%"]), (0.03, 0.4, ["2%", "5%", "10%", "20%", "50%"])],
)
def test_a_log_axis_has_decades_or_finer_steps(low, high, ticks):
    scale = AxisScale.of(Axis("e", log=True, percent=True), [low, high], 0, 100)
    assert [label for _, label in scale.ticks()] == ticks
    assert (scale(scale.low), scale(scale.high), scale(0)) == (0, pytest.approx(100), 0)


def test_a_log_axis_without_a_number_above_zero_has_a_range():
    scale = AxisScale.of(Axis("e", log=True), [], 0, 100)
    assert scale(0.0) == 0
    assert AxisScale.of(Axis("e", log=True), [1.0, 1.0], 0, 100).high > 1


def _compared(ends: dict[str, float]) -> dict[str, Any]:
    """A comparison of methods that end so, with two panels."""
    series = [
        {"method": name, "label": name, "x": [0, 10], "mean": [0.0, y], "se": [0.0, 0.1]} for name, y in ends.items()
    ]  # fmt: skip
    panels = [
        {"title": measure, "coords": {"measure": measure}, "series": series}
        for measure in ("entropy", "sampled")
    ]
    return {"title": "m on toy:sort", "methods": [], "panels": panels}


def test_a_figure_of_many_methods_draws_each_at_its_best_learning_rate():
    rates = (1e-6, 2e-6, 4e-6, 8e-6)
    ends = {f"tpo:learning_rate={rate}:ties=pooled": rate for rate in rates}
    ends |= {f"grpo:learning_rate={rate}": 0.1 for rate in rates} | {"grpo": 0.3, "lpo": 0.2}
    all_of_them = llm_figure.figure(_compared(ends))
    assert [label for label, _ in all_of_them.legend] == [readable(name) for name in ends]
    assert "best learning rate" not in all_of_them.note
    assert "The table has intervals" in all_of_them.note  # too many for bands

    drawn = llm_figure.figure(_compared(ends | {"ppo": 0.1}))
    assert [label for label, _ in drawn.legend] == [
        "TPO, learning rate 8e-6, pooled ties",
        "GRPO",
        "LPO",
        "PPO",
    ]
    assert [len(panel.marks) for panel in drawn.panels] == [4, 4]
    assert "Each method at its best learning rate; the table has the others" in drawn.note
    assert "± standard error" in drawn.note

    methods = {f"tpo:eta={eta}": 0.1 for eta in range(11)}  # nothing to leave out
    assert len(llm_figure.figure(_compared(methods)).legend) == 11


def test_options_that_all_lines_share_are_in_the_note():
    drawn = llm_figure.figure(_compared({"tpo:epochs=4": 0.2, "grpo:epochs=4": 0.1}), "Sorting")
    assert drawn.title == "Sorting"
    assert drawn.legend == [("TPO", "m0 d0"), ("GRPO", "m1 d0")]
    assert drawn.note.startswith("All with 4 epochs. On held-out prompts")

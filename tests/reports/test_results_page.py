"""The pages and figures made of evidence, and that the committed ones follow from what is committed."""

import json
import re
import shlex
import xml.etree.ElementTree as ET
from typing import Any

import numpy as np
import pytest

from support import ROOT
from support.kept_runs import call, page_of
from tpo.cli import main, parser
from tpo.cli.run_study import requests_of
from tpo.lab import studies
from tpo.lab.execution.runner import Request, plan, run
from tpo.reports import comparisons, evidence, publish
from tpo.reports.gather import command as command_of
from tpo.reports.gather import gather
from tpo.reports.markdown import llm_page, results_page
from tpo.reports.summary import summarise, summary
from tpo.reports.svg import llm_figure
from tpo.reports.svg.axes import Axis, Scale
from tpo.reports.svg.draw import Figure, Mark, Panel
from tpo.reports.svg.figures import figure

DOCS = ROOT / "docs"


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


def test_notes_stand_in_their_section_and_a_wrong_name_is_told(tmp_path):
    path = tmp_path / "notes.md"
    path.write_text("# Notes\n\n## terminal\n\nSeeds are bimodal.\n\n## vocab\n\nFine.\n")
    notes = publish.notes(path)
    assert notes == {"terminal": "Seeds are bimodal.", "vocab": "Fine."}
    page = page_of([], notes)
    own = page[page.index("## Terminal reward") : page.index("## Without the anchor")]
    assert "Seeds are bimodal." in own
    with pytest.raises(ValueError, match="the notes speak of termnal, expected names of studies"):
        page_of([], {"termnal": "x"})


def test_fewer_seeds_than_the_studys_are_said(kept):
    page = page_of(gather([kept]))
    assert (
        "Fewer seeds than the study has at full scale. 4 of 100 seeds: PG; DG; GRPO; TPO." in page
    )


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
    (docs / "results.md").write_text("something else")
    assert call("--check", "--docs", str(docs)) == 1


# ---- figures


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
def test_a_log_axis_has_decades_or_finer_rungs(low, high, ticks):
    scale = Scale.of(Axis("e", log=True, percent=True), [low, high], 0, 100)
    assert [label for _, label in scale.ticks()] == ticks
    assert (scale(scale.low), scale(scale.high), scale(0)) == (0, pytest.approx(100), 0)


def test_a_log_axis_without_a_number_above_zero_still_stands():
    scale = Scale.of(Axis("e", log=True), [], 0, 100)
    assert scale(0.0) == 0
    assert Scale.of(Axis("e", log=True), [1.0, 1.0], 0, 100).high > 1


# ---- what is committed


def test_the_committed_pages_follow_from_the_committed_evidence():
    assert publish.stale(DOCS, publish.kept(DOCS)) == {}
    assert publish.BEGIN in (ROOT / "README.md").read_text()


def test_the_committed_evidence_is_a_few_megabytes_and_at_full_scale():
    assert sum(path.stat().st_size for path in evidence.files(DOCS / "evidence")) < 5e6
    assert {result.manifest.scale for result in publish.kept(DOCS)} == {"full"}


def test_every_committed_number_has_its_commit_and_device():
    for result in publish.kept(DOCS):
        for cell in (cell for cell in result.cells if cell.done):
            assert re.fullmatch(r"[0-9a-f]{12}\+?", cell.origin["commit"]), cell.key
            assert cell.origin["device"]


def test_a_committed_row_follows_from_its_seeds():
    found = json.loads((DOCS / "evidence" / "mnist.json").read_text())
    cell = next(cell for cell in found["parts"] if cell["method"] == "tpo")
    last = 100 * np.array(cell["tracks"]["test_error"]["last"])
    mean, median = (f"{x:.3g}" for x in (last.mean(), np.median(last)))
    solved = f"{(last < 5).sum()} of {len(last)}"
    (row,) = re.findall(r"\| TPO \| final error % \| 2.9 \|.*", (DOCS / "results.md").read_text())
    assert f"| 2.9 | {mean} \\[" in row
    assert f" | {median} | " in row
    assert f" | {solved} | " in row


def printed_command(name):
    """The command under a study's table on the committed page."""
    text = (DOCS / "results.md").read_text()
    (line,) = re.findall(rf"^    (tpo run {name} --scale full.*)$", text, re.MULTILINE)
    return line.split()[1:]


def committed(name):
    return next(result for result in publish.kept(DOCS) if result.study.name == name)


def asked_for(command):
    """(settings, method, seeds) of the runs that a printed line starts."""
    arguments = [shlex.split(one)[1:] for one in command.split(" && ")]
    requests = [
        request for words in arguments for request in requests_of(parser().parse_args(words))
    ]
    planned = [(request, one) for request in requests for one in plan(request)]
    return {(str(one.coords), one.method, seeds_of(request, one)) for request, one in planned}


def seeds_of(request, planned):
    usual = request.study.scale(request.scale).settings_at(request.study, planned.coords)["seeds"]
    return request.seeds or usual


def test_the_printed_commands_start_the_committed_runs():
    page = (DOCS / "results.md").read_text()
    for result in publish.kept(DOCS):
        command = command_of(result)
        assert f"    {command}\n" in page
        runs = {(str(cell.coords), cell.method, cell.seeds) for cell in result.cells if cell.seeds}
        assert runs <= asked_for(command), result.study.name


def test_the_printed_command_gives_the_committed_numbers(tmp_path, capsys):
    assert main([*printed_command("talk"), "--out", str(tmp_path)]) == 0
    known = summary(committed("talk"))["table"]["rows"]
    (found,) = summarise(tmp_path)
    for a, b in zip(known, found["table"]["rows"], strict=True):
        assert (b["method"], b["metric"]) == (a["method"], a["metric"])
        assert b["ours"] == pytest.approx(a["ours"], rel=1e-4)


def test_the_printed_command_gives_the_committed_seeds(tmp_path, capsys):
    fewer = ["--methods", "tpo", "--seeds", "8", "--out", str(tmp_path)]
    assert main([*printed_command("tabular_single"), *fewer]) == 0
    (again,) = gather([tmp_path])[0].cells
    before = next(cell for cell in committed("tabular_single").cells if cell.method == "tpo")
    ours, known = (cell.series["expected_error"].last[:8] for cell in (again, before))
    # another processor may round another way, and a seed then draws other arms: most do not
    assert np.isclose(ours, known, rtol=1e-3).sum() >= 6


def test_comparisons_of_language_models_stand_beside_the_published_numbers(tmp_path):
    """Two methods on GSM8K, three seeds each: within 85 to 87, and below."""
    values = {"tpo": [85.5, 86.0, 86.5], "grpo": [70.0, 70.5, 71.0]}
    rows = [
        {"coords": {}, "method": name, "metric": "final accuracy %", "published": None, "n": 3,
         "mean": float(np.mean(x)), "values": x}
        for name, x in values.items()
    ]  # fmt: skip
    settings = {"model": "/somewhere/Qwen3-1.7B", "task": "gsm8k:/somewhere/gsm8k"}
    made = {"name": "llm-comparison", "title": "Qwen3-1.7B on gsm8k:/somewhere/gsm8k", "source": "tpo train --compare",
            "settings": settings, "scale": "custom", "table": {"rows": rows}, "verdicts": [],
            "progress": {"cells_done": 6, "cells": 6}}  # fmt: skip
    path = comparisons.keep(tmp_path, made, "math")
    assert path.name == "math.json"
    assert "somewhere" not in path.read_text()
    *_, models = results_page.sections([], {}, comparisons.read(tmp_path).values())
    assert models["progress"] == {"cells_done": 2, "cells": 6}
    found = {(row["method"], row["metric"]): row for row in models["table"]["rows"][:2]}
    assert found["TPO", "final accuracy %"]["agreement"] == "agrees"
    assert found["GRPO", "final accuracy %"]["agreement"] == "ours is lower"
    assert {row["agreement"] for row in models["table"]["rows"][2:]} == {"not run"}


def test_without_a_comparison_the_page_says_so():
    assert "No comparison is kept yet" in llm_page.page({}, {})
    with pytest.raises(ValueError, match=r"speak of toys, expected .* that are kept \(none\)"):
        llm_page.page({}, {"toys": "Fast."})


def test_comparisons_come_in_the_order_of_their_notes_and_only_pairs_stand_in_the_overview():
    row = {"method": "grpo", "metric": "final sampled accuracy %", "mean": 20.0, "n": 3, "iqm_low": None, "iqm_high": None}  # fmt: skip
    timed = {"label": "GRPO", "method": "grpo", "threshold": None, "rollouts": None, "ratio": None, "baseline": True, "reached": 0, "seeds": 3}  # fmt: skip
    alone = {"title": "m on toy:sort", "about": "", "methods": [timed], "table": {"rows": [row]}, "verdicts": [],
             "settings": {}, "provenance": {}, "command": "", "cost": {"seconds": 1.0, "device": "cpu"},
             "progress": {"cells_done": 3, "cells": 3}}  # fmt: skip
    text = llm_page.page({"a": alone, "b": alone, "c": alone}, {"c": "Slow.", "a": "Fast."})
    assert re.findall(r"(?m)^## (\w)", text) == ["c", "a", "b"]
    assert llm_page.OVERVIEW not in text


def test_the_overview_holds_the_tpo_that_ends_best():
    ends = {"tpo": 20.0, "tpo:eta=0.5": 40.0, "lpo": 90.0, "grpo": 30.0}
    rows = [
        {"method": name, "metric": "final sampled accuracy %", "mean": x, "n": 3, "iqm_low": None, "iqm_high": None}
        for name, x in ends.items()
    ]  # fmt: skip
    methods = [
        {"label": name.upper(), "method": name, "threshold": 0.3, "rollouts": None, "ratio": None, "baseline": name == "grpo", "reached": 0, "seeds": 3}
        for name in ends
    ]  # fmt: skip
    found = {"title": "m on toy:sort", "about": "", "methods": methods, "table": {"rows": rows}, "verdicts": [],
             "settings": {}, "provenance": {}, "command": "", "cost": {"seconds": 1.0, "device": "cpu"},
             "progress": {"cells_done": 12, "cells": 12}, "panels": []}  # fmt: skip
    line = "| [a](#a-m-on-toysort) | 3 | TPO:ETA=0.5 | GRPO | {} | {} | {} | 40 | 30 | – | – |"
    assert line.format("–", "–", "–") in llm_page.page({"a": found}, {})
    curves = {"grpo": [0.0, 0.1, 0.3], "tpo:eta=0.5": [0.0, 0.2, 0.28], "tpo": [0.0, 0.3, 0.3]}
    series = [{"method": name, "x": [0, 10, 20], "mean": y} for name, y in curves.items()]
    found["panels"] = [{"coords": {"measure": "sampled"}, "series": series}]
    assert line.format("0.6", "1.01", "never") in llm_page.page({"a": found}, {})
    curves["grpo"][-1] = 0.0  # no goal where GRPO does not gain
    assert line.format("–", "–", "–") in llm_page.page({"a": found}, {})


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


def test_a_figure_of_many_methods_draws_each_at_the_rate_that_ends_best():
    rates = (1e-6, 2e-6, 4e-6, 8e-6)
    ends = {f"tpo:learning_rate={rate}:ties=free": rate for rate in rates}
    ends |= {f"grpo:learning_rate={rate}": 0.1 for rate in rates} | {"grpo": 0.3, "lpo": 0.2}
    all_of_them = llm_figure.figure(_compared(ends))
    assert [label for label, _ in all_of_them.legend] == [*ends]
    assert "the rate" not in all_of_them.note
    assert "Intervals are in the table" in all_of_them.note  # too many for bands

    drawn = llm_figure.figure(_compared(ends | {"ppo": 0.1}))
    assert [label for label, _ in drawn.legend] == [
        "tpo:learning_rate=8e-06:ties=free",
        "grpo",
        "lpo",
        "ppo",
    ]
    assert [len(panel.marks) for panel in drawn.panels] == [4, 4]
    assert "the rate that ends best; the others are in the table" in drawn.note
    assert "± standard error" in drawn.note

    methods = {f"tpo:eta={eta}": 0.1 for eta in range(11)}  # nothing to leave out
    assert len(llm_figure.figure(_compared(methods)).legend) == 11


def test_the_distances_of_the_staleness_protocols_are_those_of_the_evidence():
    known = {
        (p.coords["D"], p.method): p for p in studies.published_numbers() if p.study == "staleness"
    }
    far: dict[str, list[float]] = {}
    kept = json.loads((DOCS / "evidence" / "staleness_protocols.json").read_text())
    for cell in kept["parts"]:
        ours = 100 * cell["tracks"]["test_error"]["mean"][-1]
        said = float(known[str(cell["coords"]["D"]), cell["method"]].value)
        far.setdefault(cell["coords"]["protocol"], []).append(abs(np.log(ours / said)))
    order = sorted((float(np.mean(values)), name) for name, values in far.items())
    words = ", ".join(f"{name} {distance:.3f}" for distance, name in order)
    assert words in (DOCS / "evidence" / "notes.md").read_text()

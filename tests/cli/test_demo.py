"""The demo: its table follows from the saved curves, its sentences from the table."""

import argparse
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from support import ROOT
from tpo.cli import demo, main
from tpo.cli.demo.dense_live import Live, MethodRow
from tpo.cli.demo.dense_results import Result, conclusion, results_of
from tpo.cli.demo.shared import Clock
from tpo.lab import studies
from tpo.lab.execution import runner
from tpo.lab.training import TrainingProgress
from tpo.reports.summary import summarise
from tpo.stats.verdicts import MethodResult, verdict
from tpo.storage.store import Store


def result(label: str, *steps: int | None, episodes: int = 100) -> Result:
    """Seeds whose error drops from 30% to 0.1% after so many episodes, or never."""
    errors = np.full((len(steps), episodes), 0.3)
    for row, step in zip(errors, steps, strict=True):
        row[len(row) if step is None else step - 1 :] = 0.001
    return Result(label, errors)


def test_the_table_is_that_of_the_saved_curves(tmp_path: Path, capsys: Any) -> None:
    args = arguments("--scale", "smoke", "--out", str(tmp_path), "--seed-offset", "5")
    assert args.run(args) == 0
    out = capsys.readouterr().out
    (summary,) = summarise(tmp_path)
    assert summary["provenance"]["seeds"] == "5..6"
    assert [one["claim"] for one in summary["verdicts"]] == [
        f"TPO reaches 1% error before {rival}" for rival in ("GRPO", "PPO", "DG")
    ]
    assert all(one["claim"] in out for one in summary["verdicts"])
    jobs = runner.plan(runner.Request(studies.get_study("demo"), "smoke", first_seed=5))
    for job in jobs:
        curves = Store(tmp_path).curves(job.key)
        assert curves is not None
        (line,) = [x for x in out.splitlines() if x.startswith(f"│ {job.label} ")]
        assert f"{curves['error'][:, -1:].mean():.1%}" in line
    assert (tmp_path / "report.html").is_file()
    assert f"Report: {tmp_path.resolve() / 'report.html'}" in out
    resumed = Live(jobs, results_of(tmp_path, jobs))
    assert resumed.clock.left(resumed.done) == "done"
    assert resumed.done == sum(job.episodes for job in jobs)


def arguments(*words: str) -> Any:
    parser = argparse.ArgumentParser()
    demo.add_parser(parser.add_subparsers())
    return parser.parse_args(["demo", *words])


def finished(folder: Path, curves: dict[str, np.ndarray]) -> None:
    """A store in which the runs of `tpo demo` are finished, with these errors by label."""
    store = Store(folder)
    for job in runner.plan(runner.Request(studies.get_study("demo"), "quick")):
        store.begin(job.key, {"cell": {}})
        store.finish(job.key, {"error": curves[job.label]})


def report_cells(page: str) -> list[dict[str, str]]:
    """The rows of the table of numbers, by heading."""
    *_, table = re.findall(r'<table class="numbers">(.*?)</table>', page, re.DOTALL)
    heads = re.findall(r'<th[^>]*scope="col"[^>]*>(.*?)</th>', table)
    lines = re.findall(r"<tr>(.*?)</tr>", table.partition("<tbody>")[2], re.DOTALL)
    plain = [re.findall(r"<t[dh][^>]*>(.*?)</t[dh]>", line) for line in lines]
    return [
        dict(zip(heads, (re.sub("<.*?>", "", cell) for cell in line), strict=True))
        for line in plain
    ]


def test_the_report_has_the_terminals_numbers(tmp_path: Path, capsys: Any) -> None:
    """Seeds that reach 1%, relapse, or never get there: one count and one median of steps in both."""
    steps = {"TPO": (56, 50, 55, 72), "GRPO": (75, 98, 99, None), "PPO": (87, 90, None, None)}
    curves = {label: result(label, *found).errors for label, found in steps.items()}
    curves |= {"DG": result("DG", *[None] * 4).errors}
    curves["TPO"][:2, -1] = 0.2  # two seeds relapse at the last step
    finished(tmp_path, curves)
    args = arguments("--out", str(tmp_path))
    assert args.run(args) == 0
    out = capsys.readouterr().out
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    lines = [[cell.strip() for cell in x.split("│")[1:-1]] for x in out.splitlines() if "│" in x]
    rows = report_cells(page)
    assert len(lines) == len(rows) == 4
    for (label, span, reached, _), row in zip(lines, rows, strict=True):
        assert row["method"] == label
        assert row["reached 1%"] == reached.removesuffix(" seeds")
        median = re.sub(r" \(.*", "", span)
        assert row["median steps"] == ("never" if median.startswith("over") else median)
    assert [row["reached 1%"] for row in rows] == ["4 of 4", "3 of 4", "2 of 4", "0 of 4"]
    assert [row["median steps"] for row in rows] == ["56", "98", "never", "never"]
    shown = re.findall(r'<th scope="col" class="number">(.*?)</th>', page)  # others are on demand
    assert shown[-3:] == ["final error % [95%]", "reached 1%", "median steps"]
    assert [row["below 1% at the end"] for row in rows] == ["2 of 4", "3 of 4", "2 of 4", "0 of 4"]
    assert (
        "First below 1% error (median seed): TPO after 56 steps, then GRPO after 98; PPO and DG never."
        in page
    )
    shown = "TPO on 4 of 4, GRPO on 3 of 4, PPO on 2 of 4 and DG on 0 of 4"
    assert f"Seeds that reached 1%: {shown}." in page
    assert "Within 100 steps TPO reaches 1% error on 4 of 4 seeds, in a median of 56" in out
    assert "episode" not in out
    assert "<dt>steps</dt><dd>100</dd>" in page
    assert main(["run", "demo", "--out", str(tmp_path)]) == 0
    studied = [x for x in capsys.readouterr().out.splitlines() if re.match(r"│ *(TPO|GRPO) *│", x)]
    assert [re.findall(r"\d of 4", line) for line in studied] == [["4 of 4"], ["3 of 4"]]


def test_one_seed_is_not_paired(tmp_path: Path, capsys: Any) -> None:
    args = arguments("--scale", "smoke", "--seeds", "1", "--out", str(tmp_path))
    jobs = runner.plan(runner.Request(studies.get_study("demo"), "smoke", 1))
    for job in jobs:
        Store(tmp_path).begin(job.key, {"cell": {}})
        Store(tmp_path).finish(job.key, {"error": np.full((1, 4), 0.5)})
    assert args.run(args) == 0
    out = capsys.readouterr().out
    assert "Paired" not in out
    assert "1 seeds" not in out


def test_steps_of_a_seed_that_never_gets_there_are_named_and_count_as_more_than_the_budget() -> (
    None
):
    found = result("GRPO", None, 75, None, None)
    assert found.steps.tolist() == [101, 75, 101, 101]
    assert found.cells(100) == (
        "GRPO",
        "over 100 (75 to over 100)",
        "1 of 4 seeds",
        "22.5%",
    )
    assert result("TPO", 56, 50, 55, 72).cells(100)[1] == "56 (50 to 72)"
    assert result("PPO", None, None).cells(100)[1] == "over 100"


def test_the_last_sentence() -> None:
    found = [
        result("TPO", 56, 50, 55, 72),
        result("GRPO", None, 75, None, None),
        result("DG", *[None] * 4),
    ]
    assert conclusion(found, 100) == (
        "Within 100 steps TPO reaches 1% error on 4 of 4 seeds, in a median of 56; "
        "GRPO on 1, DG on 0."
    )
    assert conclusion(found[::-1], 100).startswith(
        "Within 100 steps DG reaches 1% error on 0 of 4 seeds; GRPO"
    )


def test_the_numbers_of_the_full_study_are_those_of_the_evidence() -> None:
    """`vocab` with V = 2 is the demo's task with the paper's seeds and episodes."""
    (vocab,) = (one for one in summarise(ROOT / "docs/evidence") if one["name"] == "vocab")
    rows = [row for row in vocab["table"]["rows"] if row["coords"] == {"V": 2}]
    steps = {row["method"]: row["steps_to_threshold"] for row in rows}
    about = studies.get_study("demo").about
    told = dict(re.findall(r"(\d+) (?:steps )?of (TPO|DG|GRPO)\b", about))
    assert {name: int(n) for n, name in told.items()} == {
        "TPO": steps["TPO token"],
        "DG": steps["DG"],
        "GRPO": steps["GRPO token"],
    }
    assert "PPO does not reach it" in about
    assert steps["PPO"] in (None, "never")


def test_rows_follow_a_run() -> None:
    row = MethodRow(100)
    assert row.cells == ("", "waiting", "")
    row.take(20, {"error": np.array([[1.0] * 10 + [0.005] * 10, [1.0] * 20])})
    assert row.cells == ("49.8%", "█" * 12, "1 of 2")


def test_steps_of_an_earlier_start_do_not_count_for_the_time_left() -> None:
    job = runner.plan(runner.Request(studies.get_study("demo"), "quick"))[0]
    live = Live([job])
    live.watch(job, TrainingProgress(60, {}, 0.0))
    assert (live.done, live.clock.first, live.clock.left(60)) == (60, 60, "compiling")


def test_plain_lines_come_ten_to_a_run() -> None:
    row = MethodRow(50)
    printed = []
    for episode in range(1, 51):
        row.episode = episode
        printed += [episode] if row.due() else []
    assert printed == list(range(5, 51, 5))


def test_the_time_left_follows_from_the_episodes_so_far(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(400, began=0.0)
    monkeypatch.setattr("tpo.cli.demo.shared.time.monotonic", lambda: 30.0)
    assert clock.left(0) == clock.left(7) == "compiling"
    assert clock.left(100) == "about 90 s left"
    resumed = Clock(400, first=100, began=0.0)
    assert resumed.left(100) == "compiling"
    assert resumed.left(200) == "about 60 s left"


def test_a_negative_seed_offset_is_refused() -> None:
    with pytest.raises(ValueError, match="--seed-offset is -1, expected 0 or more"):
        runner.Request(studies.get_study("demo"), first_seed=-1)


KEPT = json.loads((ROOT / "docs/evidence/demo/offsets.json").read_text())
OFFSETS = KEPT["offsets"]


@pytest.mark.parametrize("offset", OFFSETS)
def test_the_kept_curves_are_those_of_todays_demo(offset: str) -> None:
    """A cell's key has all of its settings: after a change of the demo its runs must be made again."""
    request = runner.Request(studies.get_study("demo"), "quick", first_seed=int(offset))
    assert {job.label: job.key for job in runner.plan(request)} == KEPT["cells"][offset], (
        f"the demo is another: run tpo demo --seed-offset {offset} and keep its curves and keys"
    )
    for job in runner.plan(request):
        assert np.shape(OFFSETS[offset][job.label]) == (job.seeds, job.episodes)
    assert set(KEPT) >= {"commit", "versions"}


@pytest.mark.parametrize("offset", OFFSETS)
def test_the_verdicts_at_three_seed_offsets_are_the_same(offset: str) -> None:
    """From the saved curves: TPO first, on all seeds, and the table that the notes print."""
    study, curves = studies.get_study("demo"), OFFSETS[offset]
    results = [Result(label, np.array(x)) for label, x in curves.items()]
    assert [len(result.steps) for result in results] == [4] * 4
    found = [
        MethodResult({}, name, result.label, True, {"steps": result.steps}.__getitem__)
        for name, result in zip(study.methods, results, strict=True)
    ]
    assert [verdict(claim, found)["status"] for claim in study.claims] == ["holds"] * 3
    assert results[0].reached == 4
    notes = (ROOT / "docs/research/lab-notes.md").read_text()
    for result in results:
        assert f"| {offset} | {' | '.join(result.cells(100))} |" in notes

"""The demo of a language model: what it shows and says follows from the files of its runs."""

import argparse
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest

pytest.importorskip("trl")

from support import ROOT
from tpo.cli import main
from tpo.cli.demo import add_parser, llm, llm_live, llm_results
from tpo.llm.comparison.plan import Plan
from tpo.llm.comparison.summary import read_run_logs, summary
from tpo.llm.runs.artifacts import write_lines
from tpo.storage.files import write_json

SMOKE = ["demo", "--llm", "--scale", "smoke"]


def plan(folder: Path, *words: str) -> Plan:
    parser = argparse.ArgumentParser()
    add_parser(parser.add_subparsers())
    args = parser.parse_args(["demo", "--llm", *words])
    return llm.plan_of(llm.setting_of(args), folder / "seed0", folder / "small-model", args)


class RunEvaluations(NamedTuple):
    """The part of a run's log that accuracies are read from."""

    evaluations: list[dict[str, Any]]


def evaluation(step: int, accuracy: float, *answers: tuple[str, str, float]) -> dict[str, Any]:
    examples = [
        {"prompt": f"Reverse the letters. {x}", "completion": y, "score": s} for x, y, s in answers
    ]
    rest = {"pass_at_k": accuracy, "kl": None, "failures": 0, "examples": examples}
    return {"step": step, "sampled": accuracy, "greedy": min(1.0, 2 * accuracy), **rest}


def write(run: Any, evaluations: list[dict[str, Any]], done: bool = True) -> None:
    run.folder.mkdir(parents=True)
    log = {"reward": 0.5, "entropy": 1.0, "completions/mean_length": 5, "groups/zero_variance": 0.0}
    write_lines(run.folder / "log.jsonl", [{"step": evaluations[-1]["step"], **log}])
    write_lines(run.folder / "evaluations.jsonl", evaluations)
    result = {"steps": evaluations[-1]["step"], "evaluations": evaluations, "seconds": 1.0}
    result["seconds_per_step"] = {}
    if done:
        write_json(run.folder / "result.json", {**result, "provenance": {"device": "cpu"}})


def finished(folder: Path, tpo: list[float], grpo: list[float]) -> Plan:
    """A comparison whose runs end with these accuracies, one per seed, from 10%."""
    made = plan(folder, "--seeds", str(len(tpo)))
    for method, ends in zip(made.methods, (tpo, grpo), strict=True):
        for seed, end in enumerate(ends):
            last = evaluation(made.recipe.steps, end)
            write(made.run(method, seed), [evaluation(0, 0.1), last])
    write_json(made.folder / "comparison.json", {"plan": made.to_dict()})
    return made


def test_the_methods_differ_in_their_objective_alone(tmp_path: Path) -> None:
    made = plan(tmp_path, "--seed-offset", "7")
    runs = [made.run(method, 7).recipe.to_dict() for method in made.methods]
    tpo, grpo = ({k: v for k, v in run.items() if k != "out"} for run in runs)
    assert (tpo.pop("objective"), grpo.pop("objective")) == ("tpo", "grpo")
    assert tpo == grpo
    assert tpo["seed"] == 7


def test_answers_are_shown_with_right_and_wrong(tmp_path: Path) -> None:
    made = plan(tmp_path, "--seeds", "1")
    tpo, grpo = (made.run(method, 0) for method in made.methods)
    assert "waiting" in shown(made)
    write(grpo, [evaluation(0, 0.1, ("abcd", "dbca", 0.0))], done=False)
    (row,) = [row for row in shown(made).splitlines() if "abcd" in row]
    assert row.split() == ["│", "abcd", "│", "│", "dbca", "✗", "│"]
    later = evaluation(8, 0.25, ("abcd", "dcba", 1.0))
    write(tpo, [evaluation(0, 0.1, ("abcd", "cdba", 0.0)), later], done=False)
    (row,) = [row for row in shown(made).splitlines() if "abcd" in row]
    assert row.split() == ["│", "abcd", "│", "dcba", "✓", "│", "dbca", "✗", "│"]
    logs = read_run_logs(made)
    assert "50.0% ██████" in shown(made)
    assert llm_live.line(logs[made.methods[0]][0], later) == (
        f"TPO   seed 0 batch   2/{made.recipe.batches}   50.0% right: abcd -> dcba ✓"
    )


def shown(made: Plan) -> str:
    from rich.console import Console

    console = Console(width=120)
    with console.capture() as capture:
        console.print(llm_live.table(read_run_logs(made), ""))
    return capture.get()


def test_a_verdict_needs_seeds_that_support_it(tmp_path: Path) -> None:
    apart = finished(tmp_path / "apart", [0.80, 0.81, 0.82], [0.60, 0.62, 0.63])
    *verdicts, last = llm_results.sentences(apart, summary(apart.folder))
    assert any(text.startswith("holds: TPO ends with a lower error") for text in verdicts)
    assert last.strip() == (
        f"After {llm.QUICK.options['batches'] * 128:,} rollouts 81% with TPO and 62% with GRPO of sampled "
        "answers are right; before training 10%."
    )
    two = finished(tmp_path / "two", [0.8, 0.8], [0.6, 0.6])
    noisy = finished(tmp_path / "noisy", [0.8, 0.6, 0.7], [0.6, 0.7, 0.65])
    for made, reason in ((two, "fewer than 3"), (noisy, "no difference is significant at 95%")):
        none, _ = llm_results.sentences(made, summary(made.folder))
        assert none.startswith("No verdict")
        assert reason in none
        assert "holds" not in none


def test_the_table_has_the_mean_and_the_range_of_the_seeds(tmp_path: Path) -> None:
    tpo, grpo = llm_results.accuracies(finished(tmp_path, [0.3, 0.4], [0.2, 0.2]))
    assert tpo.cells == ("TPO", "10.0%", "35.0% (30.0 to 40.0)", "70.0% (60.0 to 80.0)")
    assert grpo.cells[0] == "GRPO"


def test_an_interrupted_demo_says_what_is_kept(tmp_path: Path) -> None:
    made = plan(tmp_path, "--seeds", "1")
    assert "nothing is kept" in llm.what_is_kept(made)
    Path(made.recipe.model).mkdir(parents=True)
    write(made.run(made.methods[0], 0), [evaluation(8, 0.25)])
    write(made.run(made.methods[1], 0), [evaluation(8, 0.25)], done=False)
    assert f"1 of 2 runs are kept in {tmp_path}" in llm.what_is_kept(made)


def test_it_trains_and_a_second_start_repeats_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tpo.cli.demo.llm_live.INTERVAL", 0.2)
    words = [*SMOKE, "--out", str(tmp_path)]
    assert main(words) == 0
    first = capsys.readouterr().out
    assert "Pretraining: step 2/2" in first
    assert len(re.findall(r"^(TPO|GRPO) +seed 0 batch +\d/2 ", first, re.MULTILINE)) == 6
    assert "No verdict" in first
    page = tmp_path.resolve() / "seed0/report.html"
    assert f"Report: {page}" in first
    assert "toy:reverse" in page.read_text()
    trained = (tmp_path / "seed0/tpo-seed0/result.json").stat().st_mtime_ns
    assert main(words) == 0
    again = capsys.readouterr().out
    assert "Pretraining: done by an earlier start" in again
    assert trained == (tmp_path / "seed0/tpo-seed0/result.json").stat().st_mtime_ns
    assert results(again) == results(first)


def results(out: str) -> list[str]:
    return [line for line in out.splitlines() if line[:6] in ("│ TPO ", "│ GRPO", "After ")]


def test_mistakes_are_named_before_torch_is_imported(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    cases = [
        (["--scale", "full"], "--scale is 'full'; with --llm it is one of smoke, quick"),
        (["--seed-offset", "-1"], "--seed-offset is '-1', expected a whole number from 0"),
        (["--seeds", "0"], "--seeds is '0', expected a whole number from 1"),
        (["--out", str(tmp_path / "file")], "not at or below a file"),
    ]
    code = (
        "import sys, json; sys.modules['torch'] = None\nfrom tpo.cli import main\n"
        "for words in json.loads(sys.argv[1]): assert main(['demo', '--llm', *words]) == 2"
    )
    words = json.dumps([case for case, _ in cases])
    done = subprocess.run(
        [sys.executable, "-c", code, words], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    for line, (_, message) in zip(done.stderr.splitlines(), cases, strict=True):
        assert message in line


def test_what_more_rollouts_give_is_that_of_the_evidence() -> None:
    found = json.loads((ROOT / "docs/evidence/llm/small_equal.json").read_text())
    accuracy = {
        row["method"]: round(row["mean"])
        for row in found["table"]["rows"]
        if row["metric"] == "final sampled accuracy %"
    }
    faster = ":learning_rate=0.0002"
    told = [int(n) for n in re.findall(r"(\d+)%", llm.LLM_FULL)]
    assert told == [
        accuracy[f"{name}:iterations=4{rate}"] for rate in (faster, "") for name in ("tpo", "grpo")
    ]
    assert found["progress"]["cells"] == 9 * 3


def test_the_notes_have_the_numbers_of_the_kept_evaluations() -> None:
    kept = json.loads((ROOT / "docs/evidence/demo/llm.json").read_text())
    notes = (ROOT / "docs/research/lab-notes.md").read_text()
    for label, runs in kept["evaluations"].items():
        found = llm_results.Accuracy(label, [RunEvaluations(run) for run in runs])
        assert f"| {' | '.join(found.cells)} |" in notes
    assert f"It took {sum(kept['cpu_seconds'].values())} CPU seconds" in notes

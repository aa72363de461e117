"""`tpo run` as a user meets it."""

import json

import pytest

from tpo.cli import main

SMALL = ["run", "--task", "digits", "--batch", "16", "--episodes", "20", "--chunk", "10"]


def test_a_table_with_a_row_per_method(capsys, tmp_path):
    assert main([*SMALL, "--methods", "ce,dg", "--out", str(tmp_path / "out")]) == 0
    out = capsys.readouterr().out
    rows = [line.split("│")[1].strip() for line in out.splitlines() if line.startswith("│")]
    assert rows == ["CE", "DG"]
    assert f"saved in {tmp_path / 'out'}" in out.replace("\n", "")
    assert len(list((tmp_path / "out").glob("*/curves.npz"))) == 2


def test_a_sweep_is_an_axis_of_the_table_and_of_the_report(capsys, tmp_path):
    """A run of one's own is a study: its jobs go to the same workers, and its report has the axis."""
    words = ["--methods", "ce", "--sweep", "learning_rate=1e-3,1e-2", "--sweep", "batch=8"]
    assert main([*SMALL, *words, "--out", str(tmp_path), "--json"]) == 0
    (study,) = json.loads(capsys.readouterr().out)["studies"]
    assert study["title"].endswith(", by learning_rate and batch")
    coords = [row["coords"] for row in study["table"]["rows"]]
    assert coords == [{"learning_rate": rate, "batch": 8} for rate in (1e-3, 1e-2)]
    cells = [json.loads(path.read_text())["cell"] for path in tmp_path.glob("*/cell.json")]
    assert sorted(cell["optimiser"]["learning_rate"] for cell in cells) == [1e-3, 1e-2]
    assert {cell["budget"]["batch"] for cell in cells} == {8}
    assert main(["report", str(tmp_path)]) == 0
    assert "learning_rate" in (tmp_path / "report.md").read_text()


@pytest.mark.parametrize(("flags", "name"), [([], "adam"), (["--optimiser", "sgd"], "sgd")])
def test_the_optimiser_is_the_papers_or_the_one_that_is_named(capsys, tmp_path, flags, name):
    assert main([*SMALL, *flags, "--methods", "ce", "--out", str(tmp_path)]) == 0
    (cell,) = tmp_path.glob("*/cell.json")
    assert json.loads(cell.read_text())["cell"]["optimiser"]["name"] == name


def test_nothing_asked_for_is_nothing_run(capsys):
    assert main(["run"]) == 2
    assert "name a study (`tpo studies` lists them), or give the methods" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--methods", "sarsa"], "expected one of ce, pg, dg"),
        (["--methods", ""], "expected names with commas between"),
        (["--methods", "tpo,,dg"], "expected names with commas between"),
        (["--task", "sequences", "--methods", "grop"], "Did you mean 'grpo'?"),
        (["--methods", "ppo:correct=tis"], "'ppo:correct=tis' holds correct"),
        (["--methods", "ppo:correct=tis2", "--delay", "3"], "option correct is 'tis2'"),
        (["--resume"], "--resume needs --out"),
        (["--task", "sequences", "--reward", "later"], "expected one of 'bag'"),
        (["--task", "sequences", "--methods", "tpo_token"], "waits for the end"),
        (["--group-size", "0"], "--group-size is '0'"),
        (["--task", "digits", "--chunk", "-5"], "--chunk is '-5', expected a whole number from 1"),
        (["--task", "digits", "--chunk", "0"], "--chunk is '0', expected a whole number from 1"),
        (["--sweep", "colour=1"], "'colour' is unknown. expected one of horizon, vocab"),
        (["--sweep", "batch=8,0"], "batch is '0', expected a whole number from 1"),
        (["--optimiser", "lion"], "--optimiser is 'lion', expected one of 'muon'"),
        (["--mnist-path", "/none.npz", "--task", "mnist"], "expected an existing file"),
        (["--arms", "10"], "arms is an option of --task bandit, and --task is digits"),
        (["--horizon", "3"], "horizon is an option of --task sequences, and --task is digits"),
        (["--task", "bandit", "--sweep", "vocab=2,3"], "vocab is an option of --task sequences"),
        (["--methods", "ce,dg,ce"], "--methods holds ce twice: give each method once"),
    ],
)
def test_a_wrong_flag_is_named_without_a_traceback(capsys, flags, message):
    assert main([*SMALL, *flags]) == 2
    assert message in capsys.readouterr().err


def test_import_tpo_imports_neither_jax_nor_the_lab():
    import subprocess
    import sys

    code = "import sys, tpo, tpo.cli.run; print({'jax', 'optax', 'rich'} & set(sys.modules))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "set()"

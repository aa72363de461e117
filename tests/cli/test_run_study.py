"""The commands, as a shell calls them."""

import pytest

from tpo.cli import compare, run, studies
from tpo.cli.flags.parser import Parser
from tpo.cli.lab import study_display
from tpo.reports.summary import summarise


def call(module, *words):
    parser = Parser()
    module.add_parser(parser.add_subparsers())
    args = parser.parse_args(words)
    return args.run(args)


def test_run_shows_the_table_beside_the_published_numbers(store_dir, capsys):
    assert call(run, "run", "tabular_single", "--scale", "smoke", "--out", str(store_dir)) == 0
    out = capsys.readouterr().out
    assert "One context, a hundred arms" in out
    assert "undecided: TPO ends with the lowest error" in out
    assert "last 100: the error over the last 100 episodes" in " ".join(out.split())
    summary = next(s for s in summarise(store_dir) if s["name"] == "tabular_single")
    for row in summary["table"]["rows"]:
        assert study_display.cell_text(row["last100"]) in out
    assert f"tpo report {store_dir}" in out.replace("\n", "")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["termnal"], "Did you mean 'terminal'? Valid names: tabular_single, "),
        (["terminal", "--horizon", "3"], "--horizon is for a run without a study"),
        (["terminal", "--only", "H"], "expected KEY=VALUE such as H=7"),
        (["tabular_single", "--only", "H=3"], "no axis to take a part of: leave --only out"),
        (["terminal", "--methods", "tpo:eta=.5,tpo:eta=0.5"], "holds tpo:eta=0.5 twice"),
        (["all", "--methods", "tpo"], "`tpo run all` takes none of them"),
        (["terminal", "--resume", "--out", "missing"], "'missing' is not one"),
        (["--scale", "quick"], "--scale and --only are for a study"),
    ],
)
def test_wrong_words_are_answered_with_the_right_ones(words, message):
    with pytest.raises(ValueError) as error:
        call(run, "run", *words)
    assert message in str(error.value)


def test_ctrl_c_keeps_what_is_done_and_says_how_to_go_on(tmp_path, capsys, monkeypatch):
    from tpo.lab.execution.scheduler import Scheduler

    def stopped(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(Scheduler, "run", stopped)
    words = ["run", "talk", "--scale", "smoke", "--out", str(tmp_path / "store")]
    assert call(run, *words) == 130
    assert "Run the same command again to resume" in capsys.readouterr().err


def test_studies_lists_all_with_runs_and_times(capsys):
    assert call(studies, "studies") == 0
    out = capsys.readouterr().out
    assert "5/5/40" in out
    assert "Estimates for" in out
    assert call(studies, "studies", "staleness") == 0
    assert "protocol is not published; this is ours" in capsys.readouterr().out.replace("\n", " ")


def test_compare_ranks_what_was_run_from_the_lowest_error(store_dir, capsys):
    from tpo.reports.summary import summarise

    words = ["--scale", "smoke", "--methods", "tpo,dg", "--out", str(store_dir)]
    assert call(compare, "compare", *words) == 0
    rows = next(s for s in summarise(store_dir) if s["name"] == "compare")["table"]["rows"]
    assert {row["method"] for row in rows} == {"TPO", "DG"}
    assert rows[0]["last100"] <= rows[1]["last100"]


def test_the_newest_error_skips_what_was_not_measured():
    import numpy as np

    curves = {"error": np.array([[0.9, 0.8]]), "test_error": np.array([[0.3, np.nan]])}
    assert study_display.last_error(curves) == pytest.approx(0.3)
    assert study_display.last_error(
        {**curves, "test_error": np.full((1, 2), np.nan)}
    ) == pytest.approx(0.8)

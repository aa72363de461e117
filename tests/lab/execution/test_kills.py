"""A sample of `make kills`, and what it takes for equal."""

import shutil

import numpy as np
import pytest

import kill_runs
from tpo.lab.execution.runner import Request, run
from tpo.storage.store import Store

SECONDS = 8.0
"""About what a run takes: kills come at random times within it."""


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
    folder = tmp_path_factory.mktemp("expected") / "s"
    run(Request(kill_runs.STUDY, "smoke"), folder)
    return folder


def test_a_run_whose_processes_are_killed_at_random_ends_with_the_same_bits(expected):
    found = kill_runs.disturbed("processes", 2, expected, SECONDS, seed=3)
    assert found == kill_runs.Kills(found.commands, 2 - found.commands, survived=2)


def changed_bit(folder, key):
    store = Store(folder)
    curves = store.curves(key)
    curves["error"][0, -1] = np.nextafter(curves["error"][0, -1], np.float32(2))
    store.finish(key, curves)


@pytest.mark.parametrize(
    ("change", "equal"),
    [
        (lambda folder, key: None, True),
        (changed_bit, False),
        (lambda folder, key: (folder / key / "curves.npz").unlink(), False),
        (lambda folder, key: (folder / key / "checkpoint.npz").write_text(""), False),
    ],
    ids=["nothing", "one bit", "no result", "a checkpoint is left"],
)
def test_a_kill_is_survived_only_with_the_same_files_and_bits(expected, tmp_path, change, equal):
    folder = shutil.copytree(expected, tmp_path / "s")
    change(folder, Store(folder).keys()[-1])
    assert kill_runs.same(folder, expected) is equal


def test_the_table_has_a_line_for_each_run_and_a_lost_kill_is_a_failure(monkeypatch, capsys):
    lost = kill_runs.Kills(commands=2, workers=1, survived=2)
    monkeypatch.setattr(kill_runs, "undisturbed", lambda *_: 1.0)
    monkeypatch.setattr(kill_runs, "disturbed", lambda *_: lost)
    assert kill_runs.main(["--runs", "inline,ray", "--kills", "3"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[-2:] == ["| inline | 2 | 1 | 2 of 3 |", "| ray | 2 | 1 | 2 of 3 |"]
    lost.survived = 3
    assert kill_runs.main(["--runs", "inline"]) == 0

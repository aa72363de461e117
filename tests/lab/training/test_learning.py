"""Small real runs that learn. At each budget a wrong sign or a dropped anchor fails."""

import runpy
from dataclasses import replace

import pytest

import tpo
from support import ROOT
from tpo.lab.tasks import Digits, Sequences
from tpo.lab.training import Budget, Cell, Measures, Optimiser, method, run
from tpo.objectives.tpo import TPO


class WrongSign(TPO):
    """TPO with the sign of its loss reversed."""

    def _loss(self, xp, log_probs, prepared):
        return -super()._loss(xp, log_probs, prepared)


tpo.register("wrong_sign", WrongSign, listed=False)


def best(cell, width=10):
    """The lowest mean error of `width` episodes in a row."""
    errors = run(cell)["error"].mean(0)
    return min(errors[i : i + width].mean() for i in range(len(errors) - width + 1))


def terminal(objective):
    """Reverse four bits, rewarded only when all are right: chance is 1/16."""
    found = replace(method("tpo", 4, 8), objective=objective)
    return Cell(Sequences(4), found, Budget(64, 120))


def test_tpo_solves_terminal_reversal():
    assert best(terminal("tpo")) < 0.1


@pytest.mark.parametrize("broken", ["wrong_sign", "tpo_no_anchor"])
def test_a_wrong_sign_or_a_dropped_anchor_does_not(broken):
    assert best(terminal(broken)) > 0.4


def test_token_level_tpo_solves_dense_reversal_in_seventy_episodes():
    cell = Cell(Sequences(6, reward="bag"), method("tpo_token", 6), Budget(50, 70))
    assert best(cell) < 0.02


def digits(found):
    return run(Cell(Digits(), found, Budget(100, 800), Optimiser("adam"), measures=Measures(800)))[
        "test_error"
    ][:, -1].mean()


@pytest.mark.parametrize("name", ["dg", "tpo"])
def test_under_ten_percent_on_digits(name):
    assert digits(method(name, 1)) < 0.1


def test_a_wrong_sign_does_not_learn_digits():
    assert digits(replace(method("tpo", 1), objective="wrong_sign")) > 0.5


def test_the_example_of_an_own_task_runs_and_learns(capsys):
    example = runpy.run_path(str(ROOT / "examples" / "own_task.py"))
    errors = example["main"](episodes=600)
    assert errors["tpo"] < 0.05
    assert "tpo  error" in capsys.readouterr().out

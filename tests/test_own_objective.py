"""One class in a user's own file is in every list, study, engine and page, by its name or as FILE.py:CLASS."""

from __future__ import annotations

import sys

import pytest
import torch

import tpo
from support import ROOT
from tpo import user_code
from tpo.cli import parser
from tpo.cli.completion import script
from tpo.lab.studies.method_specs import bandit_row, sequence_row
from tpo.llm.comparison.method import method
from tpo.llm.objective_options import build_objective
from tpo.objectives import base
from tpo.objectives.base import label

FILE = ROOT / "examples/own_objective.py"
SPEC = f"{FILE}:SquaredFit"
NAME = "squared_fit"
"""Under which the example registers itself."""


@pytest.fixture(params=[NAME, SPEC], ids=["registered", "file"])
def own(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """How it is named; afterwards the registry is as it was."""
    monkeypatch.setattr(base, "_REGISTRY", dict(base._REGISTRY))
    monkeypatch.setattr(user_code, "_LOADED", {})
    base.entry(SPEC)
    return str(request.param)


def test_it_is_listed_with_a_name_to_display(own: str) -> None:
    assert tpo.list_objectives()[-1] == NAME
    assert label(own) == ("SquaredFit" if own == SPEC else NAME)
    assert tpo.objective(own).traits.family == "target"


def test_studies_take_it_on_sequences_and_on_bandits(own: str) -> None:
    assert sequence_row(f"{own}:epochs=2")[:3] == (own, "sequence", 2)
    assert bandit_row(own)[:2] == (own, "vector")


def test_trainers_of_language_models_take_it(own: str) -> None:
    objective = build_objective(own, {}, 0.1, "set beta")
    assert objective == tpo.objective(own)
    assert method(own).objective == own
    zeros, scores = torch.zeros(1, 3, 1, dtype=torch.float64), torch.tensor([0.0, 1.0, 0.0])
    groups = tpo.Groups(log_probs_old=zeros, scores=scores.double()[None])
    c = objective.coefficients(zeros, objective.prepare(groups))
    assert c[0, 1] < 0 < c[0, 0]


def test_commands_complete_its_name(own: str) -> None:
    pytest.importorskip("shtab")
    assert NAME in script(parser(), "bash")


def test_the_table_of_objectives_has_its_row(own: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("sphinx")
    monkeypatch.setattr(sys, "path", [str(ROOT / "docs"), *sys.path])
    import _objectives

    row = _objectives.table().partition(f"``{NAME}``")[2].splitlines()[:4]
    assert [line.strip("- ") for line in row[1:]] == [
        "L = mean over contexts of ½Σ(p - q)², with q from any target objective.",
        "target",
        "yes",
    ]

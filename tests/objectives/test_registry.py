"""The list of objectives is the library's own, whatever else was imported."""

from importlib import import_module

import tpo
from tpo.objectives.labels import LABELS, label


def test_names_kept_for_one_study_are_not_listed() -> None:
    import_module("tpo.lab.training")  # registers the exact population update

    assert tpo.objective("population", method="tpo").traits
    assert "population" not in tpo.list_objectives()
    assert len(tpo.list_objectives()) == 38


def test_every_objective_is_called_by_a_name_of_its_own() -> None:
    named = [label(name) for name in tpo.list_objectives()]
    assert len(set(named)) == len(named)
    assert not set(named) & set(tpo.list_objectives())
    assert set(LABELS) == set(tpo.list_objectives())
    assert (label("dr_grpo"), label("mine")) == ("Dr. GRPO", "mine")

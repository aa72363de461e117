"""The list of objectives is the library's own, whatever else was imported."""

from importlib import import_module

import tpo


def test_names_kept_for_one_study_are_not_listed() -> None:
    import_module("tpo.training")  # registers the exact population update

    assert tpo.objective("population", method="tpo").traits
    assert "population" not in tpo.objectives()
    assert len(tpo.objectives()) == 37

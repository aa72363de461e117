"""The registry: listed names, display names, and former values of options."""

from importlib import import_module

import tpo
from tpo.objectives.base import entry, label
from tpo.objectives.tpo import TPO


def test_names_kept_for_one_study_are_not_listed() -> None:
    import_module("tpo.lab.training")  # registers the exact population update

    assert tpo.objective("population", method="tpo").traits
    assert "population" not in tpo.list_objectives()
    assert len(tpo.list_objectives()) == 62


def test_every_objective_has_a_display_name_of_its_own() -> None:
    named = [label(name) for name in tpo.list_objectives()]
    assert len(set(named)) == len(named)
    assert not set(named) & set(tpo.list_objectives())
    assert all(entry(name).label for name in tpo.list_objectives())
    assert (label("dr_grpo"), label("mine"), label("mine.py:Mine")) == ("Dr. GRPO", "mine", "Mine")


def test_former_values_of_an_option_give_the_current_objective() -> None:
    """Stored results and commands of earlier versions name the ties differently."""
    former = TPO.__dataclass_fields__["ties"].metadata["formerly"]
    assert former == {"held": "anchored", "free": "pooled"}
    for old, new in former.items():
        found = tpo.objective("tpo", ties=old)
        assert found == tpo.objective("tpo", ties=new)
        assert f"ties='{new}'" in repr(found)

"""Which objectives need whole groups."""

import pytest

pytest.importorskip("trl")

import tpo
from tpo.llm.objective_structure import needs_whole_groups


def test_which_objectives_look_at_other_candidates() -> None:
    """By hand: a ratio score reads 0 for everyone at the snapshot; GRPO's ratio is a candidate's own."""
    expected = {
        ("tpo", "sum"): (True, True),
        ("tpo", "mean"): (True, True),
        ("tpo", "ratio"): (False, True),
        ("lpo", "mean_ratio"): (False, True),
    }
    for (name, score), answer in expected.items():
        objective = tpo.objective(name, score=score)
        assert (needs_whole_groups(objective, False), needs_whole_groups(objective, True)) == answer
    assert not needs_whole_groups(tpo.objective("grpo", beta=0.1), True)
    assert not needs_whole_groups(tpo.objective("rloo"), True)
    assert needs_whole_groups(tpo.objective("rebel"), True)

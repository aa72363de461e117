"""Loss and coefficients of every objective on one batch, as kept in `kept_values.json`: a restructured objective gives the same.

A formula that is meant to change is changed in `test_by_hand.py` first, then here:
`PYTHONPATH=tests python tests/objectives/test_kept_values.py`.
"""

import json
from pathlib import Path

import numpy as np
import pytest

import tpo
from support.libraries import example, run

KEPT = Path(__file__).with_name("kept_values.json")
VALUES = json.loads(KEPT.read_text()) if KEPT.exists() else {}


def computed(name: str) -> list[float]:
    """The loss, and three sums of coefficients that no two permutations or signs share."""
    fields, new = example(30, masks=True)
    loss, c, _ = run("numpy", tpo.objective(name), fields, new)
    place = np.arange(1, c.size + 1).reshape(c.shape)
    return [float(loss), float(np.abs(c).sum()), float((c / place).sum()), float((c * place).sum())]


@pytest.mark.parametrize("name", VALUES)
def test_an_objective_has_its_kept_values(name: str) -> None:
    np.testing.assert_allclose(computed(name), VALUES[name], rtol=1e-12, atol=1e-12)


def test_many_objectives_are_kept_and_differ() -> None:
    assert len(VALUES) >= 40
    assert len({json.dumps(values[1:]) for values in VALUES.values()}) > 30


if __name__ == "__main__":
    rows = [f'  "{name}": {json.dumps(computed(name))}' for name in tpo.list_objectives()]
    KEPT.write_text("{\n" + ",\n".join(rows) + "\n}\n")

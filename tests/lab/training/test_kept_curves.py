"""Two tiny runs end with the curves that are kept here: a restructured lab trains as before.

Machines round differently, hence the tolerance. Within one machine other tests compare bits.
"""

import numpy as np
import pytest

from tpo.lab.policies import Transformer
from tpo.lab.tasks import Digits, Sequences
from tpo.lab.training import Budget, Cell, Optimiser, method, run

CELLS = {
    "tpo": Cell(
        Sequences(3), method("tpo", 3, 4), Budget(8, 6), policy=Transformer(2, 3, 3, width=8)
    ),
    "dg": Cell(Digits(), method("dg", 1), Budget(16, 6), Optimiser("adam")),
}
KEPT = {
    "tpo": {
        "error": [0.9375, 0.875, 0.96875, 0.875, 0.90625, 0.8125],
        "gradient_norm": [3.4102929, 3.2001944, 2.0819574, 1.5031549, 2.9345973, 5.1585517],
        "losers": [0.2267736, 0.1918996, 0.2290746, 0.2164963, 0.2033138, 0.2044537],
    },
    "dg": {
        "error": [0.9375, 1.0, 1.0, 0.8125, 0.9375, 0.8125],
        "gradient_norm": [0.1503332, 0.0367143, 0.0363843, 0.3215983, 0.1551574, 0.2412395],
        "losers": [0.103664, 0.1036893, 0.1044049, 0.104442, 0.1055064, 0.1061886],
    },
}
"""By `python tests/lab/training/test_kept_curves.py`."""


@pytest.mark.parametrize("name", CELLS)
def test_a_run_has_its_kept_curves(name):
    curves = run(CELLS[name])
    for curve, values in KEPT[name].items():
        np.testing.assert_allclose(curves[curve].mean(0), values, rtol=1e-3, err_msg=curve)
    assert len(KEPT[name]) == 3


if __name__ == "__main__":
    for one, cell in CELLS.items():
        print(one, {k: np.round(v.mean(0), 7).tolist() for k, v in run(cell).items()})

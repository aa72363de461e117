"""An accelerator computes what a CPU does: the first episode's gradient, at shapes that divide the work differently.

A compiler can be wrong at one shape and right at another, and learning hides much. Skipped on a CPU.
"""

import json
import os
import subprocess
import sys

import jax
import numpy as np
import pytest

from tpo.lab.tasks import Sequences
from tpo.lab.training import Budget, Cell, method, run

pytestmark = pytest.mark.skipif(
    jax.default_backend() == "cpu", reason="needs an accelerator that JAX can use"
)

SHAPES = [(8, 4, 256, 4), (8, 8, 256, 4), (8, 32, 64, 3), (7, 8, 100, 4)]
"""(H, K, B, seeds)"""


def first_gradients(name: str, horizon: int, size: int, batch: int, seeds: int) -> list[float]:
    cell = Cell(
        Sequences(horizon, 2, "reverse_copy", "terminal"),
        method(name, horizon, size, None),
        Budget(batch, 1, seeds),
    )
    return run(cell)["gradient_norm"][:, 0].tolist()


ON_A_CPU = """
import json, sys
sys.path.insert(0, sys.argv[1])
from test_accelerator import first_gradients
print(json.dumps(first_gradients(sys.argv[2], *map(int, sys.argv[3:]))))
"""


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", ["tpo", "grpo"])
def test_the_first_gradient_is_that_of_a_cpu(name, shape):
    command = [sys.executable, "-c", ON_A_CPU, os.path.dirname(__file__), name]
    environment = os.environ | {"JAX_PLATFORMS": "cpu"}
    told = subprocess.run(
        [*command, *map(str, shape)], env=environment, capture_output=True, text=True, check=True
    )
    expected = np.array(json.loads(told.stdout.splitlines()[-1]))
    apart = np.abs(first_gradients(name, *shape) - expected) / expected
    assert np.median(apart) < 0.03, apart  # a seed may draw a candidate that rounding decides

"""On an accelerator, numbers added up in place come in an order, and a rounding, that differs from run to run."""

import re

import jax
import jax.numpy as jnp
import pytest

from tpo.lab.tasks import Sequences
from tpo.lab.training import Budget, Cell, Pace, method
from tpo.lab.training.loop import TrainingRun, chunk_of

ADDED = re.compile(
    r'"stablehlo\.scatter"[^\n]*unique_indices = false.*?\}\) : \(([^)]*)\) -> (\S+)', re.DOTALL
)


@pytest.mark.parametrize("name", ["tpo", "tpo_token", "grpo", "ppo", "dg"])
def test_no_gradient_adds_in_place(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    cell = Cell(Sequences(4, 2, "reverse_copy", "bag"), method(name, 4, 4, None), Budget(8, 2, 2))
    runner = TrainingRun(cell, Pace(chunk=1))
    runner.restore(None)
    arguments = (runner.data, runner.states[0], jnp.int32(0), jnp.int32(0))
    traced = jax.jit(chunk_of(runner.learner)).trace(*arguments)
    text = traced.lower(lowering_platforms=("cuda",)).as_text()
    added = [found for found in ADDED.findall(text) if "f32" in found[1]]
    assert "dot_general" in text
    assert not added

"""Laws of clip bounds and KL penalties for random batches; NumPy alone."""

from dataclasses import fields

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tpo
from support.random_groups import Batch, batches, close, coefficients, evaluated
from tpo.objectives.base import entry

few = settings(max_examples=8)

BOUNDS = {
    "ppo": (0.8, 1.2),
    "grpo_no_kl": (0.8, 1.2),
    "dr_grpo": (0.8, 1.2),
    "dapo": (0.8, 1.28),
    "gspo": (1 - 3e-4, 1 + 4e-4),
    "gspo_token": (1 - 3e-4, 1 + 4e-4),
    "gdpo": (0.8, 1.2),
    "mt_grpo": (0.8, 1.2),
    "reinforce_pp": (0.8, 1.2),
    "vapo": (0.8, 1.28),
}
"""The published clip range of pi/pi_old."""
UNPENALISED = {"gdpo": {"beta": 0.0}, "mt_grpo": {"beta": 0.0}, "vapo": {"likelihood": 0.0}}
PENALISED = {
    name: {"group_baseline": True} if name == "reinforce_pp" else {}
    for name in tpo.list_objectives()
    if "beta" in {f.name for f in fields(entry(name).make)}
}
"""The options with which beta multiplies a KL in the loss."""


def token_coefficients(name: str, ratio: float, advantage: float) -> tuple[np.ndarray, np.ndarray]:
    """Two candidates of one token with advantages of opposite sign: at that ratio, and on-policy."""
    old = np.full((1, 2, 1), -1.0)
    fields = {
        "log_probs_old": old,
        "scores": np.array([[advantage, -advantage]]),
        "values": np.zeros((1, 2, 1)),
    }
    objective = tpo.objective(name, **UNPENALISED.get(name, {}))
    prepared = objective.prepare(tpo.Groups(**fields))
    moved = objective.coefficients(old + np.log(ratio), prepared)
    return moved[0, :, 0], objective.coefficients(old, prepared)[0, :, 0]


@pytest.mark.parametrize("name", BOUNDS)
@few
@given(st.floats(-1, 1), st.sampled_from([-1.0, 1.0]))
def test_a_clipped_ratio_has_no_gradient_and_any_other_is_an_importance_weight(
    name: str, where: float, advantage: float
) -> None:
    """r from below the lower bound to above the upper; the second candidate has the advantage's opposite."""
    low, high = BOUNDS[name]
    ratio = 1 + 1.5 * where * (high - 1 if where > 0 else 1 - low)
    moved, at_one = token_coefficients(name, ratio, advantage)
    for c, expected, sign in zip(moved, at_one, (advantage, -advantage), strict=True):
        clipped = ratio > high if sign > 0 else ratio < low
        assert expected * sign < 0
        close(c, 0 if clipped else ratio * expected)


@pytest.mark.parametrize("name", PENALISED)
@few
@given(batches(masks=True), st.floats(0, 3))
def test_the_penalty_is_linear_in_beta(name: str, batch: Batch, beta: float) -> None:
    none, some, one = (
        coefficients(tpo.objective(name, **PENALISED[name], beta=b), batch)
        for b in (0.0, beta, 1.0)
    )
    close(some, none + beta * (one - none))
    assert (one != none).any()


@pytest.mark.parametrize("name", sorted(set(PENALISED) - {"pg_is"}))
@few
@given(batches(masks=True))
def test_the_penalty_pulls_every_token_towards_the_reference(name: str, batch: Batch) -> None:
    """Its slope has the sign of log(pi/ref), and it is never below 0; `pg_is` has one ratio per candidate."""
    (loss, c), (loss_0, c_0) = (
        evaluated(tpo.objective(name, **PENALISED[name], beta=b), batch) for b in (1.0, 0.0)
    )
    away = np.nan_to_num(batch.new - batch.fields["log_probs_ref"])
    assert ((c - c_0) * away >= -1e-12).all()
    assert loss >= loss_0 - 1e-12

"""Laws of clip bounds and KL penalties for random batches; NumPy alone."""

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
    if entry(name).make.traits.kl
}
"""The options with which beta multiplies a KL in the loss."""


def at_ratio(name: str, ratio: float, advantage: float) -> tuple[float, np.ndarray]:
    """Loss and coefficients of two candidates of one token, with advantages of opposite sign, at that ratio."""
    old = np.full((1, 2, 1), -1.0)
    fields = {
        "log_probs_old": old,
        "scores": np.array([[advantage, -advantage]]),
        "values": np.zeros((1, 2, 1)),
    }
    batch = Batch(fields, old + np.log(ratio), np.random.default_rng())
    return evaluated(tpo.objective(name, **UNPENALISED.get(name, {})), batch)


SIDES = st.sampled_from([-1.0, 1.0])


@pytest.mark.parametrize("name", BOUNDS)
@settings(max_examples=24)
@given(st.sampled_from([0.0, 0.4, 0.6, 0.9, 1.1, 1.3]), SIDES, SIDES)
def test_a_clipped_ratio_has_no_gradient_and_any_other_is_an_importance_weight(
    name: str, part: float, side: float, advantage: float
) -> None:
    """r at this part of the way to a bound, or beyond it; the second candidate has the advantage's opposite."""
    low, high = BOUNDS[name]
    ratio = 1 + part * side * (high - 1 if side > 0 else 1 - low)
    weighted = -at_ratio(name, 1.0, advantage)[1].ravel()  # weight·advantage of each candidate
    loss, c = at_ratio(name, ratio, advantage)
    clipped = (weighted > 0) & (ratio > high) | (weighted < 0) & (ratio < low)
    close(c.ravel(), np.where(clipped, 0, -ratio * weighted))
    close(loss, -np.minimum(ratio * weighted, np.clip(ratio, low, high) * weighted).sum())
    assert weighted[0] * advantage > 0 > weighted[0] * weighted[1]


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


@pytest.mark.parametrize("name", sorted(set(PENALISED) - {"pg_is", "remax", "rloo"}))
@few
@given(batches(masks=True))
def test_the_penalty_pulls_every_token_towards_the_reference(name: str, batch: Batch) -> None:
    """Its slope has the sign of log(pi/ref), and it is never below 0. Not of penalties per candidate."""
    (loss, c), (loss_0, c_0) = (
        evaluated(tpo.objective(name, **PENALISED[name], beta=b), batch) for b in (1.0, 0.0)
    )
    away = np.nan_to_num(batch.new - batch.fields["log_probs_ref"])
    assert ((c - c_0) * away >= -1e-12).all()
    assert loss >= loss_0 - 1e-12

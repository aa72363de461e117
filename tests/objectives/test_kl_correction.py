"""The corrected KL pulls towards the reference, in the first epoch and after it."""

from dataclasses import fields
from typing import Any

import numpy as np
import pytest

import tpo
from tpo.objectives.base import entry

KL_CORRECTED = [
    (name, {"group_baseline": True} if name == "reinforce_pp" else {})
    for name in tpo.list_objectives()
    if "kl_correction" in {f.name for f in fields(entry(name).make)}
    and not entry(name).make.traits.critic
    and not entry(name).make.needs
]


@pytest.mark.parametrize(("name", "options"), KL_CORRECTED, ids=lambda x: str(x))
@pytest.mark.parametrize("new", [(0.5, 0.3, 0.2), (0.4, 0.4, 0.2)])
def test_the_corrected_kl_has_the_gradient_of_kl_to_the_reference(
    name: str, options: dict[str, Any], new: tuple[float, ...]
) -> None:
    """Ten candidates in the proportions of p_old = (.5, .3, .2): the mean over them is the expectation.

    ∇KL(pi‖ref) by the logits is pi·(d - KL), d = log(pi/ref). Objectives differ by a positive factor.
    """
    old, ref, pi = (np.array(p) for p in ((0.5, 0.3, 0.2), (0.2, 0.3, 0.5), new))
    actions = np.repeat([0, 1, 2], [5, 3, 2])
    groups = tpo.Groups(
        log_probs_old=np.log(old)[actions].reshape(1, 10, 1),
        scores=np.arange(10.0).reshape(1, 10) % 2,
        log_probs_ref=np.log(ref)[actions].reshape(1, 10, 1),
    )
    objective = tpo.objective(name, beta=0.1, kl_correction=True, **options)
    plain = tpo.objective(name, **{"beta": 0.0, **options})
    now = np.log(pi)[actions].reshape(1, 10, 1)
    c = objective.coefficients(now, objective.prepare(groups)) - plain.coefficients(
        now, plain.prepare(groups)
    )
    found = sum(c[0, i, 0] * (np.eye(3)[a] - pi) for i, a in enumerate(actions))
    d = np.log(pi / ref)
    expected = pi * (d - (pi * d).sum())
    scale = found @ expected / (expected @ expected)
    assert scale > 0
    np.testing.assert_allclose(found, scale * expected, atol=1e-9)

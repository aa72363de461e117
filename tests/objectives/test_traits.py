"""Traits: what an objective declares that it needs is what changes its coefficients, by default or by an option."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, replace
from itertools import product
from typing import Any

import numpy as np
import pytest

import tpo
from tpo.objectives import entry, icepop, tis
from tpo.objectives.advantages import ADVANTAGES
from tpo.objectives.target_matching import SCORES

NAMES = tpo.list_objectives()
CHOICES: dict[str, tuple[Any, ...]] = {
    "advantage": tuple(ADVANTAGES),
    "anchor": (True, False, "rollout", "reference"),
    "divergence": ("forward", "reverse", "js", "alpha", "tv", "kl"),
    "granularity": ("token", "sequence"),
    "score": SCORES,
}
SINGLE = {"pg_is": {"advantage": "score"}}
"""Options with which an objective for single samples, whose default compares a group, does without one."""

SELECTING = {
    "m2po": {"tau": 0.005},
    "clip_cov": {"low": 0.0, "share": 0.3},
    "kl_cov": {"share": 0.3},
}
"""Options with which something is selected among the twelve tokens of `batch`."""


def batch() -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Two contexts of three candidates of two tokens, with every field; some scores are 0 (cross-entropy)."""
    rng = np.random.default_rng(0)
    old = rng.normal(size=(2, 3, 2)) - 1
    found = {
        "log_probs_old": old,
        "scores": np.array([[0.0, 1.0, 0.7], [0.4, 0.0, 0.0]]),
        "log_probs_ref": old + 0.3 * rng.normal(size=old.shape),
        "log_probs_rollout": old + 0.1 * rng.normal(size=old.shape),
        "values": rng.random(old.shape),
        "baseline": np.array([0.3, 0.3]),
    }
    return found, old + 0.1 * rng.normal(size=old.shape)


def settings(name: str, **fixed: Any) -> Iterator[tpo.Objective]:
    """The class with its defaults, and with each other value of each flag and choice; `fixed` where it has them."""
    make = entry(name).make
    known = {f.name: getattr(make(), f.name) for f in fields(make)}
    default = replace(make(), **{key: value for key, value in fixed.items() if key in known})
    yield default
    if name in SELECTING:
        yield replace(default, **SELECTING[name])
    for key, value in known.items():
        others = (not value,) if isinstance(value, bool) else CHOICES.get(key, ())
        for other in others:
            try:
                yield replace(default, **{key: other})
            except ValueError:  # a choice of another objective's option of that name
                continue


def coefficients(
    objective: tpo.Objective, given: dict[str, np.ndarray], new: np.ndarray
) -> np.ndarray:
    found: np.ndarray = objective.coefficients(new, objective.prepare(tpo.Groups(**given)))
    return found


def reads(objective: tpo.Objective, field: str) -> bool:
    """Whether the coefficients change with that field."""
    given, new = batch()
    changed = given | {
        field: given[field] + np.random.default_rng(1).normal(size=given[field].shape)
    }
    return not np.allclose(
        coefficients(objective, given, new), coefficients(objective, changed, new)
    )


def compares_a_group(objective: tpo.Objective) -> bool:
    """Whether it matters which candidates are together: the first ones of two contexts change places."""
    given, new = batch()

    def swapped(x: np.ndarray) -> np.ndarray:
        x = x.copy()
        if x.ndim > 1:
            x[[0, 1], 0] = x[[1, 0], 0]
        return x

    there = coefficients(objective, {key: swapped(x) for key, x in given.items()}, swapped(new))
    return not np.allclose(swapped(there), coefficients(objective, given, new))


def reads_tokens(objective: tpo.Objective) -> bool:
    """Whether the tokens of a candidate have coefficients of their own, or its log-prob's division matters."""
    given, new = batch()
    divided = new.copy()
    divided[0, 1] += (0.9, -0.9)
    found, moved = (coefficients(objective, given, x) for x in (new, divided))
    return not np.allclose(found, moved) or not np.allclose(found[..., 0], found[..., 1])


def reads_others(objective: tpo.Objective, same_group: bool) -> bool:
    """Whether coefficients change with the current log-probs of another candidate, of the same group or another."""
    given, new = batch()
    rng = np.random.default_rng(2)
    for scale, observed, k in product((0.05, 0.1, 0.2, 0.5, 3.0), (0, 1), (0, 1, 2)):
        moved = new.copy()
        moved[observed if same_group else 1 - observed, k] += scale * rng.normal(size=2)
        others = [i for i in range(3) if i != k or not same_group]
        found, there = (coefficients(objective, given, x)[observed, others] for x in (new, moved))
        if not np.allclose(found, there):
            return True
    return False


def has_own_kl(name: str) -> bool:
    """Whether a reference matters with the option beta, and not without it."""
    try:
        without = list(settings(name, beta=0.0))
    except ValueError:  # beta is something else, such as DPO's, and must be positive
        return False
    if any(reads(one, "log_probs_ref") for one in without):
        return False
    return any(reads(one, "log_probs_ref") for one in settings(name, beta=0.5))


@pytest.mark.parametrize("name", NAMES)
def test_what_an_objective_declares_is_what_it_reads(name: str) -> None:
    make, found = entry(name).make, {}
    found["group"] = compares_a_group(make(**SINGLE.get(name, {})))
    found["critic"] = reads(make(), "values")
    found["reference"] = any(reads(one, "log_probs_ref") for one in settings(name))
    found["behaviour"] = any(reads(one, "log_probs_rollout") for one in settings(name))
    found["tokens"] = any(map(reads_tokens, [*settings(name), *settings(name, beta=0.5)]))
    found["whole_groups"] = any(reads_others(one, same_group=True) for one in settings(name))
    found["whole_batch"] = any(reads_others(one, same_group=False) for one in settings(name))
    found["kl"] = has_own_kl(name)
    assert found == {key: getattr(make.traits, key) for key in found}


def test_an_objective_needs_what_its_traits_say() -> None:
    for name in NAMES:
        make = entry(name).make
        assert make.traits.critic == ("values" in make.needs)


@pytest.mark.parametrize("correction", [tis, icepop])
def test_a_corrected_objective_reads_the_log_probs_of_the_sampler(correction: Any) -> None:
    plain = tpo.objective("grpo")
    corrected = correction(plain)
    assert not plain.traits.behaviour
    assert not reads(plain, "log_probs_rollout")
    assert corrected.traits == plain.traits._replace(behaviour=True)
    assert reads(corrected, "log_probs_rollout")

"""What reduces to what: an objective with some option, or in some batch, is another one; NumPy alone."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tpo
from support.random_groups import Batch, batches, close, coefficients, softmax
from tpo.objectives import entry, icepop, tis

Options = Mapping[str, Any]


def as_drawn(batch: Batch) -> Batch:
    return batch


def on_policy(batch: Batch) -> Batch:
    return batch.on_policy()


def first_context(batch: Batch) -> Batch:
    return Batch({name: x[:1] for name, x in batch.fields.items()}, batch.new[:1], batch.rng)


def one_token(batch: Batch) -> Batch:
    short = {name: x[..., :1] if x.ndim == 3 else x for name, x in batch.fields.items()}
    return Batch(short, batch.new[..., :1], batch.rng)


def without_ties(batch: Batch) -> Batch:
    return batch.having(scores=batch.rng.normal(size=batch.scores.shape))


def sampler_is_trainer(batch: Batch) -> Batch:
    return batch.having(log_probs_rollout=None)


class Reduction(NamedTuple):
    """`name` with `options` is `factor` times `other` with `others`, in batches made by `batch`.

    A factor of None is the size of the group.
    """

    name: str
    options: Options
    other: str
    others: Options
    batch: Callable[[Batch], Batch] = as_drawn
    factor: float | None = 1.0


Z_TOKEN = {"advantage": "z", "over": "token"}
Z_SEQUENCE = {"advantage": "z", "over": "sequence"}
NO_KL = {"beta": 0.0}
LIKE_GRPO = {"clip_low": 0.2, "clip_high": 0.2}

REDUCTIONS = [
    Reduction("grpo", NO_KL, "grpo_no_kl", {}),
    Reduction("grpo", NO_KL, "ppo", Z_SEQUENCE),
    Reduction("grpo", {"drop_constant": True}, "grpo_masked", {}),
    Reduction("grpo", {"granularity": "sequence"}, "grpo", {}, one_token, factor=None),
    Reduction("mt_grpo", {}, "grpo_masked", {}),
    Reduction("mt_grpo", {"task_logits": (0.0, -3.0)}, "grpo_masked", {}),
    Reduction("gdpo", {}, "grpo", {}, first_context),
    Reduction("gdpo", {"reward_weights": (3.0,)}, "gdpo", {}),
    Reduction("dapo", {"clip_high": 0.2}, "ppo", Z_TOKEN),
    Reduction("dapo", LIKE_GRPO, "grpo_no_kl", {}),
    Reduction("dr_grpo", {}, "ppo", {"advantage": "centred", "over": "constant"}),
    Reduction("dr_grpo", {"max_length": 1.0}, "ppo", {"advantage": "centred"}),
    Reduction("gspo", LIKE_GRPO, "grpo_no_kl", {}, one_token),
    Reduction("gspo_token", {}, "gspo", {}),
    Reduction("gspo_token", LIKE_GRPO, "gspo", LIKE_GRPO),
    Reduction("sapo", {}, "grpo_no_kl", {}, on_policy),
    Reduction("cispo", {}, "reinforce", Z_TOKEN, on_policy),
    Reduction("cispo", {"floor": 1.0, "cap": 1.0}, "reinforce", Z_TOKEN),
    Reduction("rloo", {}, "reinforce", {"advantage": "leave_one_out"}),
    Reduction("remax", {}, "reinforce", {"advantage": "given"}),
    Reduction("maxrl", {}, "reinforce", {"advantage": "over_mean"}),
    Reduction("a2c", {"lam": 0.95}, "reinforce", {"advantage": "gae"}),
    Reduction("group_pg", {}, "reinforce", {"advantage": "z", "over": "group"}),
    Reduction("reinforce", {"over": "token"}, "reinforce", {"over": "sequence"}),
    Reduction("reinforce", {"advantage": "reward"}, "reinforce", {"advantage": "score"}),
    Reduction("reinforce_pp", NO_KL, "ppo", Z_TOKEN, first_context),
    Reduction("reinforce_pp", {**NO_KL, "group_baseline": True}, "ppo", Z_TOKEN, first_context),
    Reduction("dg", {"gate_temperature": 1e12}, "reinforce", {}, factor=0.5),
    Reduction("rebel", {}, "rloo", {}, on_policy, factor=4.0),
    Reduction("trpo_penalty", {"kl_weight": 0.0}, "mdpo", {"step": 1e12}),
    Reduction("trpo_penalty", {"kl_weight": 0.0, "advantage": "centred"}, "pg_is", {}, one_token),
    Reduction("tpo_no_anchor", {}, "tpo", {"anchor": False}),
    Reduction("tpo_outcomes", {}, "tpo", {}, without_ties),
    Reduction("tpo", {"score": "mean"}, "tpo", {}, one_token),
    Reduction("tpo", {"score": "mean_ratio"}, "tpo", {"score": "ratio"}, one_token),
    Reduction("lpo", {"clip": 1 - 1e-12}, "tpo", {"score": "mean_ratio"}, sampler_is_trainer),
    Reduction("lpo", {}, "tpo", {"score": "mean_ratio"}, on_policy),
    Reduction("lpo", {"score": "sum"}, "tpo", {}),
    Reduction("lpo_reverse", {}, "grpo_no_kl", {}, on_policy),
    Reduction("lpo", {"tau": "batch_sigma"}, "lpo", {}, first_context),
]  # fmt: skip


def named(row: Reduction) -> str:
    options = [":".join([n, *(f"{k}={v}" for k, v in o.items())]) for n, o in (row[:2], row[2:4])]
    return f"{options[0]} is {options[1]} {row.batch.__name__}"


@pytest.mark.parametrize("row", REDUCTIONS, ids=named)
@settings(max_examples=6)
@given(batches())
def test_an_objective_is_another_one(row: Reduction, batch: Batch) -> None:
    batch = row.batch(batch)
    factor = row.factor or batch.new.shape[1]
    found = coefficients(tpo.objective(row.name, **row.options), batch)
    expected = coefficients(tpo.objective(row.other, **row.others), batch)
    close(found, factor * expected, atol=1e-8)


CORRECTABLE = [name for name in tpo.list_objectives() if not entry(name).make.traits.behaviour]
"""Others measure from the policy that sampled, and are not corrected again."""


@pytest.mark.parametrize("name", CORRECTABLE)
@settings(max_examples=4)
@given(batches())
def test_a_correction_does_nothing_if_sampler_and_trainer_agree(name: str, batch: Batch) -> None:
    plain = tpo.objective(name)
    agreeing = batch.having(log_probs_rollout=batch.old)
    expected = coefficients(plain, agreeing)
    for corrected in (tis(plain), icepop(plain), icepop(plain, level="sequence")):
        close(coefficients(corrected, agreeing), expected)


def sampler_far_from_trainer(batch: Batch) -> tuple[np.ndarray, Batch]:
    """[B, K, T] pi_train/pi_infer, from a tenth to ten, and the batch that has these ratios."""
    log_ratio = batch.rng.normal(size=batch.old.shape)
    return np.exp(log_ratio), batch.having(log_probs_rollout=batch.old - log_ratio)


@settings(max_examples=20)
@given(batches(), st.floats(0.5, 4))
def test_tis_scales_each_token_by_its_ratio_up_to_the_cap(batch: Batch, cap: float) -> None:
    plain = tpo.objective("grpo")
    ratio, apart = sampler_far_from_trainer(batch)
    expected = np.minimum(ratio, cap) * coefficients(plain, apart)
    close(coefficients(tis(plain, cap), apart), expected)


@settings(max_examples=20)
@given(batches(), st.floats(0.3, 0.9), st.floats(1.1, 3))
def test_icepop_keeps_the_tokens_within_its_bounds(batch: Batch, low: float, high: float) -> None:
    plain = tpo.objective("grpo")
    ratio, apart = sampler_far_from_trainer(batch)
    inside = (ratio >= low) & (ratio <= high)
    close(coefficients(icepop(plain, low, high), apart), inside * coefficients(plain, apart))


@settings(max_examples=20)
@given(batches(("binary", "levels"), T=1))
def test_to_first_order_tpo_climbs_the_mean_standardised_score(batch: Batch) -> None:
    """As eta grows, eta·(p - q) goes to -p·(u - E_p[u]) at the snapshot."""
    eta = 1e6
    p, u = softmax(batch.old[..., 0]), tpo.standardize(batch.scores)
    c = eta * coefficients(tpo.objective("tpo", eta=eta), batch.on_policy())[..., 0] * len(p)
    close(c, -p * (u - (p * u).sum(-1, keepdims=True)), atol=1e-4)


def test_a_correction_is_an_option_of_every_objective() -> None:
    icepop_of_grpo = {
        "icepop": {},
        "icepop@0.2-3": {"low": 0.2, "high": 3.0},
        "icepop_sequence": {"level": "sequence"},
        "icepop_sequence@.5-4": {"low": 0.5, "high": 4.0, "level": "sequence"},
    }
    for written, options in icepop_of_grpo.items():
        made = tpo.objective("grpo", beta=0.1, correct=written)
        assert made == icepop(tpo.objective("grpo", beta=0.1), **options)
        assert made.beta == 0.1
    for name in CORRECTABLE:
        assert tpo.objective(name, correct="tis") == tis(tpo.objective(name))
        assert tpo.objective(name, correct="tis@1.5") == tis(tpo.objective(name), 1.5)

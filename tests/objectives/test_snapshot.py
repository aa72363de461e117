"""`snapshot_advantages`: the gradient that a trainer makes of it is the objective's, for every objective that allows it."""

import math

import numpy as np
import pytest
import torch

import tpo
from tpo.objectives.snapshot import REDUCTIONS

IDS = ["b", "a", "b", "c", "a", "b", "a", "c", "b", "a", "d", "d"]
SCORES = [1.0, 0.0, 0.5, 2.0, 1.0, 0.0, 0.25, 2.0, 0.5, -1.0, 0.3, 0.9]
LENGTHS = [3, 1, 4, 2, 5, 1, 2, 3, 4, 2, 1, 5]
NOT_ADVANTAGES = {
    "reinforce": "its baseline is that of a position",
    "dg": "its gate depends on log-probs",
    "trpo_penalty": "its advantage is that of a position",
    "mdpo": "its advantage is that of a position",
    "ppo": "its advantage is that of a position",
    "remax": "it needs the score of a greedy decode",
    "a2c": "it needs a critic",
    "vapo": "it needs a critic",
    "otb": "its baseline is that of a position",
    "clip_cov": "tokens are left out by their log-probs",
}
ADVANTAGES = [name for name in tpo.list_objectives() if name not in NOT_ADVANTAGES]


def objective_of(name):
    found = tpo.objective(name)
    sums = getattr(found, "score", "") == "sum"
    return tpo.objective(name, score="ratio") if sums else found


def scores_of(objective):
    n_rewards = len(getattr(objective, "reward_weights", ()))
    return [[x, *[x * x] * (n_rewards - 1)] for x in SCORES] if n_rewards else SCORES


def padded(values, fill=0.0):
    """[B, K, ...] of rows in any order: groups in the order in which they appear."""
    names = list(dict.fromkeys(IDS))
    rows = [[v for v, one in zip(values, IDS, strict=True) if one == name] for name in names]
    longest = max(map(len, rows))
    empty = torch.full_like(values[0], fill)
    return torch.stack([torch.stack([*row, *[empty] * (longest - len(row))]) for row in rows])


def trainers_loss(log_probs, advantages, reduction):
    """What a trainer computes, row by row."""
    tokens = [a * row for a, row in zip(advantages, log_probs, strict=True)]
    if reduction == "token-mean":
        return -sum(x.sum() for x in tokens) / sum(LENGTHS)
    rows = torch.stack([x.mean() if reduction.endswith("token-mean") else x.sum() for x in tokens])
    return -rows.sum() / (len(set(IDS)) if reduction.startswith("group-sum") else len(IDS))


@pytest.mark.parametrize("name", ADVANTAGES)
def test_a_trainers_gradient_is_the_objectives(name):
    objective = objective_of(name)
    generator = torch.Generator().manual_seed(3)
    scores = scores_of(objective)
    rows = [torch.randn(n, generator=generator, dtype=torch.float64) - 2 for n in LENGTHS]
    for row in rows:
        row.requires_grad_()
    T = max(LENGTHS)
    log_probs = padded([torch.nn.functional.pad(row, (0, T - len(row))) for row in rows])
    mask = padded([torch.arange(T) < n for n in LENGTHS], fill=False)
    groups = tpo.Groups(
        log_probs, padded([torch.tensor(s, dtype=torch.float64) for s in scores]), mask=mask
    )
    loss = objective.loss(log_probs, objective.prepare(groups))
    wanted = torch.cat(torch.autograd.grad(loss, rows))
    assert wanted.abs().max() > 1e-5
    for reduction in REDUCTIONS:
        advantages = tpo.snapshot_advantages(scores, IDS, name, LENGTHS, reduction)
        found = torch.cat(torch.autograd.grad(trainers_loss(rows, advantages, reduction), rows))
        torch.testing.assert_close(found, wanted, rtol=1e-9, atol=1e-12)


def test_tpo_by_hand():
    # scores (1, 0, 0, 0): mean 1/4, sigma √3/4, so u = (√3, -1/√3, ...); q_1 = e^√3/(e^√3 + 3 e^(-1/√3))
    success, failure = math.exp(math.sqrt(3)), math.exp(-1 / math.sqrt(3))
    q = [success / (success + 3 * failure), *[failure / (success + 3 * failure)] * 3]
    found = tpo.snapshot_advantages([1, 0, 0, 0], [7, 7, 7, 7])
    np.testing.assert_allclose(found, [x - 1 / 4 for x in q], rtol=1e-12)
    summed = tpo.snapshot_advantages([1, 0, 0, 0], [7, 7, 7, 7], reduction="seq-mean-token-sum")
    np.testing.assert_allclose(summed, [4 * x - 1 for x in q], rtol=1e-12)


def test_known_advantages():
    scores, ids = [1.0, 0.0, 0.0, 1.0, 0.0], ["x", "x", "x", "y", "y"]
    rloo = tpo.snapshot_advantages(scores, ids, "rloo", reduction="seq-mean-token-sum")
    np.testing.assert_allclose(rloo, [1, -0.5, -0.5, 1, -1], rtol=1e-12)
    # token form of GRPO: mean over tokens, over the two candidates, over the one group
    grpo = tpo.snapshot_advantages([3.0, 1.0], [0, 0], "gspo", reduction="seq-mean-token-mean")
    np.testing.assert_allclose(grpo, [1, -1], rtol=1e-12)


@pytest.mark.parametrize("name", NOT_ADVANTAGES)
def test_what_is_no_advantage_is_refused(name):
    with pytest.raises(ValueError, match="use its loss or coefficients"):
        tpo.snapshot_advantages(SCORES, IDS, name, LENGTHS)


def test_tpo_with_summed_scores_is_refused_with_the_way_out():
    with pytest.raises(ValueError, match="choose score='ratio'"):
        tpo.snapshot_advantages(SCORES, IDS, tpo.objective("tpo"), LENGTHS)


def test_lengths_are_asked_for_only_where_they_matter():
    with pytest.raises(ValueError, match=r"needs lengths.*group-sum-token-mean"):
        tpo.snapshot_advantages(SCORES, IDS, "lpo")
    lpo = tpo.snapshot_advantages(SCORES, IDS, "lpo", reduction="group-sum-token-mean")
    np.testing.assert_allclose(lpo, tpo.snapshot_advantages(SCORES, IDS), rtol=1e-12)


def test_the_result_is_of_the_kind_of_the_scores():
    import jax

    wanted = tpo.snapshot_advantages(SCORES, IDS)
    as_torch = tpo.snapshot_advantages(torch.tensor(SCORES), torch.tensor([ord(x) for x in IDS]))
    assert as_torch.dtype == torch.float32
    np.testing.assert_allclose(as_torch, wanted, rtol=1e-6)
    as_jax = tpo.snapshot_advantages(jax.numpy.asarray(SCORES), IDS)
    assert isinstance(as_jax, jax.Array)
    np.testing.assert_allclose(as_jax, wanted, rtol=1e-6)
    assert tpo.snapshot_advantages(np.float32(SCORES), np.array(IDS)).dtype == np.float32


class Raised(tpo.Objective):
    """REINFORCE on scores above one half, without a closed form."""

    traits = tpo.Traits("likelihood")

    def _prepare(self, groups):
        return groups_of(groups.log_probs_old, groups.scores - 0.5)

    def _loss(self, xp, log_probs, prepared):
        return -xp.sum(prepared.advantages[..., None] * log_probs) / log_probs.shape[0]


def groups_of(log_probs_old, advantages):
    from typing import NamedTuple

    class Prepared(NamedTuple):
        log_probs_old: object
        advantages: object

    return Prepared(log_probs_old, advantages)


def test_an_objective_without_a_closed_form_is_differentiated():
    found = tpo.snapshot_advantages(torch.tensor([1.0, 0.0]), [0, 0], Raised())
    np.testing.assert_allclose(found, [0.5, -0.5])
    with pytest.raises(TypeError, match="pass scores as a torch tensor"):
        tpo.snapshot_advantages([1.0, 0.0], [0, 0], Raised())


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"scores": []}, "scores has shape"),
        ({"scores": [[[1.0]]]}, "scores has shape"),
        ({"scores": [math.nan, 1.0]}, "scores holds NaN"),
        ({"group_ids": [0]}, "group_ids has 1 entries and scores 2 rows"),
        ({"lengths": [1]}, "lengths has 1 entries"),
        ({"lengths": [0, 1]}, "lengths holds"),
        ({"lengths": [0.5, 1.0]}, "lengths holds"),
        ({"reduction": "sum"}, "reduction is 'sum', expected one of group-sum"),
        ({"objective": "tpoo"}, "unknown objective 'tpoo'"),
    ],
)
def test_mistakes_are_named(changed, says):
    given = {"scores": [1.0, 0.0], "group_ids": [0, 0], **changed}
    with pytest.raises(ValueError, match=says):
        tpo.snapshot_advantages(**given)


@pytest.mark.parametrize("name", ["rloo", "reinforce_pp"])
def test_a_kl_inside_the_reward_is_not_dropped_in_silence(name):
    with pytest.raises(ValueError, match="inside the reward"):
        tpo.snapshot_advantages(SCORES, IDS, tpo.objective(name, beta=0.1), LENGTHS)
    without = tpo.snapshot_advantages(SCORES, IDS, tpo.objective(name, beta=0.0), LENGTHS)
    np.testing.assert_array_equal(tpo.snapshot_advantages(SCORES, IDS, name, LENGTHS), without)


def test_a_kl_in_the_loss_is_the_trainers():
    found = [
        tpo.snapshot_advantages(SCORES, IDS, tpo.objective("grpo", beta=beta), LENGTHS)
        for beta in (0.1, 0.0)
    ]
    np.testing.assert_array_equal(*found)


def test_the_advice_is_one_that_helps():
    gated = tpo.objective("tpo", weight="gate", score="ratio")
    with pytest.raises(ValueError, match="use its loss"):
        tpo.snapshot_advantages(SCORES, IDS, gated)
    with pytest.raises(ValueError, match="score='ratio'"):
        tpo.snapshot_advantages(SCORES, IDS, tpo.objective("tpo", score="sum"))

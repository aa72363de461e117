"""Advantages and loss through verl's own functions against the objective's gradient over whole groups."""

import numpy as np
import pytest
import torch
from batches import batch, nested, ragged
from tensordict import TensorDict
from verl.trainer.ppo.core_algos import (
    compute_grpo_outcome_advantage,
    compute_policy_loss_vanilla,
    get_policy_loss_fn,
)
from verl.utils import tensordict_utils as tu
from verl.workers.config import FSDPActorConfig
from verl.workers.engine.utils import prepare_micro_batches
from verl.workers.utils.losses import ppo_loss

import tpo
from tpo.benchmarks import verl as bench
from tpo.llm.objective_options import build_objective
from tpo.llm.objective_structure import reduction
from tpo.llm.verl import plugin  # noqa: F401 - registers the loss
from tpo.objectives.advantages import outcome_rewards

OBJECTIVES = [
    *(("tpo", {"score": score}) for score in ("sum", "mean", "ratio", "mean_ratio")),
    *((name, {}) for name in tpo.list_objectives() if name not in ("tpo", "remax")),
    ("ppo", {"advantage": "gae"}),
]


def made(name, options):
    return build_objective(name, options, 0.0, "", critic=True)


def actor_config(**options):
    return FSDPActorConfig(
        strategy="fsdp",
        rollout_n=4,
        ppo_micro_batch_size_per_gpu=1,
        use_dynamic_bsz=True,
        **options,
    )


@pytest.mark.parametrize(("name", "options"), OBJECTIVES)
def test_coefficients_are_the_gradient_over_whole_groups(name, options):
    objective, rows = made(name, options), batch()
    found = rows.rollouts(objective).coefficients()
    for i, exact in enumerate(rows.exact(objective, rows.old)):
        torch.testing.assert_close(found.row(i).double(), exact, rtol=2e-6, atol=1e-7)
    assert found.values.abs().max() > 1e-5  # OAPL's are small: beta2 is 1e-3


@pytest.mark.parametrize(
    ("name", "options"),
    [("a2c", {"gamma": 0.9, "lam": 0.5}), ("ppo", {"advantage": "gae"}), ("vapo", {})],
)
def test_the_critic_is_fitted_to_the_objectives_returns(name, options):
    """Monte Carlo returns for VAPO, V plus GAE for others; tokens of a tool and unscored rows have none."""
    objective, rows = made(name, options), batch(seed=2)
    groups = rows.groups(objective)
    rewards = outcome_rewards(groups)
    wanted = {
        "vapo": tpo.objectives.monte_carlo(rewards, 1.0, groups.mask),
        "a2c": groups.values + tpo.objectives.gae(rewards, groups.values, 0.9, 0.5, groups.mask),
        "ppo": groups.values + tpo.objectives.gae(rewards, groups.values, 1.0, 0.95, groups.mask),
    }[name]
    found = rows.rollouts(objective).returns()
    for (g, k), row in rows.candidates().items():
        torch.testing.assert_close(
            found.row(row).double(), wanted[g, k, : rows.lengths[row]], rtol=1e-5, atol=1e-6
        )
    assert found.values.abs().max() > 0.5


@pytest.mark.parametrize(("name", "options"), OBJECTIVES)
def test_so_are_those_of_a_policy_that_has_moved(name, options):
    objective, rows = made(name, options), batch(seed=1)
    new = [
        x + 0.1 * torch.randn(len(x), generator=torch.Generator().manual_seed(len(x)))
        for x in rows.old
    ]
    found = rows.rollouts(objective).coefficients(ragged(new))
    for i, exact in enumerate(rows.exact(objective, new)):
        torch.testing.assert_close(found.row(i).double(), exact, rtol=5e-6, atol=1e-6)


def test_padding_rows_and_unscored_candidates_have_no_influence():
    rows = batch(padding=0, unscored=0, lost=0)
    objective = made("tpo", {"score": "mean"})
    plain = rows.rollouts(objective).coefficients()
    padded = batch(padding=6, unscored=0, lost=0)
    # the same rows, found by key, in another order and between padding rows
    at = {key: i for i, key in enumerate(rows.keys)}
    order = [at.get(key) for key in padded.keys]
    padded.lengths = [
        padded.lengths[i] if j is None else rows.lengths[j] for i, j in enumerate(order)
    ]
    padded.masks = [padded.masks[i] if j is None else rows.masks[j] for i, j in enumerate(order)]
    padded.old = [padded.old[i] if j is None else rows.old[j] for i, j in enumerate(order)]
    padded.scores = torch.stack([torch.tensor(7.0) if j is None else rows.scores[j] for j in order])
    found = padded.rollouts(objective).coefficients()
    for i, j in enumerate(order):
        expected = torch.zeros(padded.lengths[i]) if j is None else plain.row(j)
        torch.testing.assert_close(found.row(i), expected)
    assert plain.values.abs().max() > 0.01


def test_a_session_of_several_outputs_is_one_candidate():
    whole = batch(G=2, K=3, padding=0, lost=0, unscored=0, tools=False)
    objective = made("tpo", {"score": "mean"})
    several = batch(G=2, K=3, padding=0, lost=0, unscored=0, tools=False)
    first = whole.old[0]
    several.old = [first[:1], *whole.old[1:], first[1:]]
    several.masks = [torch.ones(len(x), dtype=torch.int64) for x in several.old]
    several.uids = [*whole.uids, whole.uids[0]]
    several.keys = [*whole.keys, whole.keys[0][:-1] + "1"]
    several.scores = torch.cat([whole.scores, whole.scores[:1]])
    several.scores[0] = -100.0  # only the last output's score counts
    one, two = (x.rollouts(objective).coefficients() for x in (whole, several))
    torch.testing.assert_close(torch.cat([two.row(0), two.row(len(whole))]), one.row(0))
    for i in range(1, len(whole)):
        torch.testing.assert_close(two.row(i), one.row(i))


def tensors(rows, picked, advantages):
    """Some rows as verl's engines get them."""
    prompts = [torch.full((3,), 5) for _ in picked]
    responses = [torch.full((rows.lengths[i],), 6) for i in picked]
    data = TensorDict(
        {
            "prompts": nested(prompts),
            "responses": nested(responses),
            "input_ids": nested([torch.cat(x) for x in zip(prompts, responses, strict=True)]),
            "response_mask": nested([rows.masks[i] for i in picked]),
            "loss_mask": nested([rows.masks[i] for i in picked]),
            "old_log_probs": nested([rows.old[i].double() for i in picked]),
            "advantages": nested([advantages.row(i).double() for i in picked]),
            "row": torch.tensor(picked),
        },
        batch_size=len(picked),
    )
    return data


def through_verl(rows, advantages, ranks, tokens, config):
    """Gradients by row: each rank's rows in micro-batches by verl's dynamic batching, verl's loss on each,
    added over micro-batches and averaged over ranks, as its engines do."""
    leaves = [x.double().clone().requires_grad_() for x in rows.old]
    share = len(rows) // ranks
    for rank in range(ranks):
        data = tensors(rows, list(range(rank * share, (rank + 1) * share)), advantages)
        tu.assign_non_tensor(
            data,
            use_dynamic_bsz=True,
            max_token_len_per_gpu=tokens,
            dp_size=ranks,
            batch_num_tokens=int(sum(m.sum() for m in rows.masks)),
            global_batch_size=len(rows),
        )
        micro_batches, _ = prepare_micro_batches(data, same_micro_num_in_dp=False)
        assert len(micro_batches) > 1
        for micro in micro_batches:
            # the model's output runs over prompt and response, one position ahead of the tokens
            out = [
                torch.cat(
                    [
                        torch.zeros(2, dtype=torch.float64),
                        leaves[i],
                        torch.zeros(1, dtype=torch.float64),
                    ]
                )
                for i in micro["row"].tolist()
            ]
            loss, _ = ppo_loss(config, {"log_probs": nested(out)}, micro)
            (loss / ranks).backward()
    return [torch.zeros_like(x) if x.grad is None else x.grad for x in leaves]


@pytest.mark.parametrize("ranks", [1, 2])
@pytest.mark.parametrize("tokens", [16, 40])
@pytest.mark.parametrize(
    ("name", "options"),
    [("tpo", {"score": "mean"}), ("tpo", {}), ("grpo", {}), ("dapo", {}), ("rloo", {})],
)
def test_verls_loss_has_the_gradient_of_the_objective(name, options, ranks, tokens):
    objective, rows = made(name, options), batch(seed=2)
    advantages = rows.rollouts(objective).coefficients()
    advantages.values.neg_()
    config = actor_config(policy_loss={"loss_mode": "tpo"})
    found = through_verl(rows, advantages, ranks, tokens, config)
    exact = rows.exact(objective, rows.old)
    for mine, wanted in zip(found, exact, strict=True):
        torch.testing.assert_close(mine, wanted, rtol=1e-6, atol=1e-8)


def test_the_loss_is_a_sum_whatever_loss_agg_mode_says():
    rows = batch(seed=3, padding=0, lost=0)
    mask = torch.nn.utils.rnn.pad_sequence(rows.masks, batch_first=True)
    x = torch.nn.utils.rnn.pad_sequence(rows.old, batch_first=True).requires_grad_()
    loss, _ = get_policy_loss_fn("tpo")(
        x.detach(), x, torch.ones_like(x), mask, "seq-mean-token-mean"
    )
    (gradient,) = torch.autograd.grad(loss, x)
    torch.testing.assert_close(gradient, -mask.float())


def test_grpo_is_verls_with_the_population_sigma():
    """verl's stated convention: sample sigma + 1e-6, and the mean that loss_agg_mode names. Ours: population
    sigma and the mean over tokens, then candidates, then prompts, which verl calls seq-mean-token-mean. With K
    candidates the two differ by sqrt(K/(K-1)) and no more."""
    rows = batch(seed=4, padding=0, lost=0, unscored=0)
    ours = rows.rollouts(made("grpo", {})).coefficients()
    pad = torch.nn.utils.rnn.pad_sequence
    mask, old = (pad(x, batch_first=True) for x in (rows.masks, rows.old))
    rewards = torch.zeros(mask.shape)
    rewards[:, 0] = rows.scores
    advantages, _ = compute_grpo_outcome_advantage(rewards, mask, np.array(rows.uids, dtype=object))
    config = actor_config()
    config.global_batch_info.update(dp_size=1, global_batch_size=len(rows))
    new = old.clone().requires_grad_()
    loss, _ = compute_policy_loss_vanilla(old, new, advantages, mask, "seq-mean-token-mean", config)
    (gradient,) = torch.autograd.grad(loss, new)
    ratio = (rows.K / (rows.K - 1)) ** 0.5
    for i in range(len(rows)):
        torch.testing.assert_close(
            ratio * gradient[i, : rows.lengths[i]], ours.row(i), rtol=2e-5, atol=1e-7
        )
    assert gradient.abs().max() > 1e-3


def test_objectives_of_sequences_read_no_tokens():
    forms = {name: reduction(made(name, options), updated=False) for name, options in OBJECTIVES}
    blind = [name for name, form in forms.items() if form is not None and form.reads == "nothing"]
    assert {"grpo", "gspo", "rloo", "lpo", "mpo", "rebel"} <= set(blind)
    for name in blind:
        found = batch(seed=5).rollouts(made(name, dict(OBJECTIVES)[name]), old=False)
        assert found.coefficients().values.abs().max() > 0
    assert all(forms[name] is None for name in ("ppo", "dapo", "dg", "reinforce_pp"))
    assert reduction(made("tpo", {"score": "mean"}), updated=False) == ("mean", True)


def test_the_bench_of_the_controller_measures_every_method():
    found = bench.rows(sizes=((64, 40),), rounds=1)
    names = [row["name"].partition(":")[0] for row in found]
    assert names == [*bench.METHODS, "dapo", *bench.METHODS]
    # 8·1.7e9 operations a token for 1e9 tokens, on 64·989e12/2 a second
    assert bench.step_seconds(1e9) == pytest.approx(429.73, abs=0.01)
    memory = [row["ratio"] for row in found if row.get("unit") == "MB"]
    assert len(memory) == 3

"""Gradients and advantages beside verl's own functions, where verl has the same method."""

import numpy as np
import pytest
import torch
from verl.trainer.ppo.core_algos import get_adv_estimator_fn, get_policy_loss_fn
from verl.workers.config import FSDPActorConfig
from verl.workers.config.actor import PolicyLossConfig

import tpo
from tpo.objectives.method_syntax import parse

B, K, T = 3, 4, 6
LENGTHS = torch.tensor([[6, 2, 6, 1], [3, 6, 6, 4], [5, 5, 2, 1]])
MASK = torch.arange(T) < LENGTHS[..., None]


def rows(x: torch.Tensor) -> torch.Tensor:
    """[B, K, ...] as verl has it: a row per candidate."""
    return x.reshape(B * K, *x.shape[2:])


def example(seed: int = 0) -> dict[str, torch.Tensor]:
    """Groups with ties; one of equal scores; log-probs that have moved by up to about a factor of two."""
    generator = torch.Generator().manual_seed(seed)
    scores = torch.tensor([[1.0, 0.0, 0.0, 0.25], [0.0, 1.0, 1.0, 0.0], [0.5] * 4]).double()
    old = -2 * torch.rand((B, K, T), generator=generator, dtype=torch.float64) - 0.05
    new = old + 0.3 * torch.randn((B, K, T), generator=generator, dtype=torch.float64)
    return {"scores": scores, "old": old, "new": new.clamp(max=-1e-3)}


def batch_scaled(scores: torch.Tensor) -> torch.Tensor:
    centred = scores - scores.mean(-1, keepdim=True)
    return centred / scores.std(correction=0)


ADVANTAGES = {
    "z": tpo.standardize,
    "centred": lambda scores: scores - scores.mean(-1, keepdim=True),
    "batch sigma": batch_scaled,
    "gpg": lambda scores: 3 / 2 * (scores - scores.mean(-1, keepdim=True)),
}
"""Two of three groups are informative, so GPG's alpha is 3/2."""

LOSSES = [
    # ours, verl's loss and its options, how it aggregates, the advantage
    ("ppo:advantage=z:over=token:dual_clip=3", "vanilla", {"clip_ratio_c": 3.0}, "token-mean", "z"),
    ("grpo:beta=0:dual_clip=1.5", "vanilla", {"clip_ratio_c": 1.5}, "seq-mean-token-mean", "z"),
    ("lite_ppo", "vanilla", {"clip_ratio_c": 100.0}, "token-mean", "batch sigma"),
    ("gspo:clip_low=0.2:clip_high=0.2", "gspo", {}, "seq-mean-token-mean", "z"),
    ("gspo", "gspo", {"clip_ratio_low": 3e-4, "clip_ratio_high": 4e-4}, "seq-mean-token-mean", "z"),
    ("sapo", "sapo", {"tau_pos": 1.0, "tau_neg": 1.05}, "seq-mean-token-mean", "z"),
    ("cispo:floor=0.8:cap=1.2", "cispo", {}, "token-mean", "z"),
    ("gmpo", "geo_mean", {"clip_ratio": 0.4, "clip_ratio_low": 0.4, "clip_ratio_high": 0.4}, "", "z"),
    ("dppo", "dppo_tv", {"clip_ratio": 0.15, "clip_ratio_low": 0.15, "clip_ratio_high": 0.15},
     "seq-mean-token-sum", "centred"),
    ("dppo_kl", "dppo_kl", {"clip_ratio": 0.05, "clip_ratio_low": 0.05, "clip_ratio_high": 0.05},
     "seq-mean-token-sum", "centred"),
    ("opmd:granularity=token:tau=0.5", "dro", {"dro_beta": 0.5}, "token-mean", "centred"),
    ("gpg", "gpg", {}, "token-mean", "gpg"),
    ("clip_cov:low=0.1:share=1", "clip_cov", {"clip_cov_ratio": 1.0, "clip_cov_lb": 0.1}, "token-mean", "z"),
    ("kl_cov:share=0.2:penalty=0.3", "kl_cov", {"kl_cov_ratio": 0.2, "ppo_kl_coef": 0.3}, "token-mean", "z"),
]  # fmt: skip


def verls_gradient(
    name: str, options: dict[str, float], over: str, advantages: torch.Tensor, data: dict
) -> torch.Tensor:
    """[B, K, T] the gradient of verl's loss by the current log-probs."""
    of_loss = {key: x for key, x in options.items() if hasattr(PolicyLossConfig, key)}
    of_actor = {key: x for key, x in options.items() if key not in of_loss}
    config = FSDPActorConfig(
        strategy="fsdp",
        rollout_n=K,
        ppo_micro_batch_size_per_gpu=1,
        use_dynamic_bsz=True,
        policy_loss=PolicyLossConfig(loss_mode=name, **of_loss),
        **of_actor,
    )
    tokens = int(MASK.sum())
    config.global_batch_info.update(dp_size=1, global_batch_size=B * K, batch_num_tokens=tokens)
    new, mask = rows(data["new"]).clone().requires_grad_(), rows(MASK).double()
    loss, _ = get_policy_loss_fn(name)(
        rows(data["old"]), new, rows(advantages)[:, None] * mask, mask, over, config
    )
    (gradient,) = torch.autograd.grad(loss, new)
    return gradient.reshape(B, K, T)


@pytest.mark.parametrize(("ours", "name", "options", "over", "advantage"), LOSSES)
def test_gradients_are_those_of_verls_loss(
    ours: str, name: str, options: dict[str, float], over: str, advantage: str
) -> None:
    data = example()
    name_of_ours, options_of_ours = parse(ours)
    objective = tpo.objective(name_of_ours, **options_of_ours)
    groups = tpo.Groups(data["old"], data["scores"], mask=MASK)
    found = objective.coefficients(data["new"], objective.prepare(groups))
    wanted = verls_gradient(name, options, over, ADVANTAGES[advantage](data["scores"]), data)
    torch.testing.assert_close(found, wanted, rtol=1e-6, atol=1e-9)
    assert wanted.abs().max() > 1e-3


ESTIMATORS = [
    ("opo", "opo", {}),
    ("rloo", "rloo", {}),
    ("grpo_passk", "grpo_passk", {"norm_adv_by_std_in_grpo": False}),
    ("otb", "optimal_token_baseline", {}),
]


@pytest.mark.parametrize(("ours", "name", "options"), ESTIMATORS)
def test_advantages_are_those_of_verls_estimator(ours: str, name: str, options: dict) -> None:
    """At the snapshot; sums over tokens, a mean over candidates (over groups for pass@k).

    The two longest candidates of each group have one length: past the second longest verl's token baseline is 0.
    """
    data = example()
    data["scores"][2] = torch.tensor(
        [0.5, 0.1, 0.2, 0.9]
    )  # pass@k of ties: verl's topk takes one of them
    data["scores"][1] = torch.tensor([0.0, 1.0, 0.75, 0.0])
    squares = torch.rand((B, K, T), generator=torch.Generator().manual_seed(1)).double() / 2
    groups = tpo.Groups(data["old"], data["scores"], mask=MASK, sum_pi_squared=squares)
    objective = tpo.objective(ours)
    weight = 1 / B if ours == "grpo_passk" else 1 / (B * K)
    found = -objective.coefficients(groups.log_probs_old, objective.prepare(groups)) / weight
    last = MASK & (torch.arange(T) == LENGTHS[..., None] - 1)
    wanted, _ = get_adv_estimator_fn(name)(
        token_level_rewards=rows(last * data["scores"][..., None]),
        response_mask=rows(MASK).double(),
        index=np.repeat(np.arange(B), K),
        config=options,
        old_log_probs=rows(data["old"]),
        sum_pi_squared=rows(squares),
    )
    torch.testing.assert_close(found, wanted.reshape(B, K, T) * MASK, rtol=1e-5, atol=1e-6)

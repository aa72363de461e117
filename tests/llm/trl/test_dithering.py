"""Weights that bfloat16 computes with: an update acts as large as it is, from the first on."""

import pytest
import torch
from torch import nn

from support import tiny_model
from tpo.llm import TargetPolicyTrainer
from tpo.llm.trl.dithering import dither


def layer(weight):
    found = nn.Linear(*reversed(weight.shape), bias=False)
    found.weight = nn.Parameter(weight.clone())
    return found


def seen(module, update):
    """What an update of every weight by so much does to the weights that bfloat16 computes with, on average."""
    before = module.weight.detach()
    return ((before + update).bfloat16().float() - before.bfloat16().float()).mean().item()


def drawn(n=256):
    return torch.randn(n, n, generator=torch.Generator().manual_seed(0)) * 0.1


def on_edges(weight):
    """Halfway between two numbers of bfloat16, as 8% of a 4-bit GGUF file's weights are."""
    return (weight.bfloat16().float().view(torch.int32) | 0x8000).view(torch.float32)


@pytest.mark.parametrize("start", [drawn(), drawn().bfloat16().float(), on_edges(drawn())])
@pytest.mark.parametrize("update", [1e-6, -1e-5])
def test_a_small_update_is_seen_as_large_as_it_is(start, update):
    module = layer(start)
    dither(module, 0)
    assert seen(module, update) == pytest.approx(update, rel=0.1)


def test_without_it_an_update_is_not_seen_or_is_much_larger():
    assert abs(seen(layer(drawn().bfloat16().float()), 1e-6)) < 1e-7
    assert abs(seen(layer(on_edges(drawn()).abs()), 1e-6)) > 1e-5


@pytest.mark.parametrize("start", [drawn(), drawn().bfloat16().float(), torch.zeros(4, 4)])
def test_the_model_that_bfloat16_computes_with_stays(start):
    module = layer(start)
    dither(module, 0)
    assert torch.equal(module.weight.bfloat16(), start.bfloat16())


def test_what_is_not_trained_or_not_float32_stays():
    frozen, half = layer(drawn()).requires_grad_(False), layer(drawn().bfloat16())
    dither(nn.ModuleList([frozen, half]), 0)
    assert torch.equal(frozen.weight, drawn())
    assert torch.equal(half.weight, drawn().bfloat16())


def test_weights_that_another_rank_holds_are_left_to_it():
    """Each rank spreads its own weights as if it held all."""
    whole, rank = (nn.ModuleList([layer(drawn()), layer(drawn())]) for _ in range(2))
    rank[0].to("meta")
    for model in (whole, rank):
        dither(model, 3)
    assert rank[0].weight.is_meta
    assert torch.equal(rank[1].weight, whole[1].weight)
    assert not torch.equal(rank[1].weight, drawn())


def test_layers_of_a_shape_are_spread_apart_and_alike_every_time():
    pairs = [nn.ModuleList([layer(drawn()), layer(drawn())]) for _ in range(2)]
    for pair in pairs:
        dither(pair, 3)
    (a, b), (again, _) = pairs
    assert not torch.equal(a.weight, b.weight)
    assert torch.equal(a.weight, again.weight)


@pytest.mark.parametrize("asked", [{}, {"weight_dithering": False}, {"bf16": False}])
def test_the_trainer_spreads_where_bfloat16_computes(tmp_path, asked):
    args = tiny_model.config(tmp_path, **{"bf16": True, **asked})
    model = tiny_model.model()
    before = model.lm_head.weight.detach().clone()
    trainer = TargetPolicyTrainer(
        model,
        tiny_model.reward,
        args,
        train_dataset=tiny_model.prompts(),
        processing_class=tiny_model.tokenizer(),
    )
    assert torch.equal(trainer.model.lm_head.weight, before) == bool(asked)

"""The sampler's completions: compared with transformers' own decoding, and with the model's probabilities."""

from collections import Counter
from itertools import pairwise
from typing import Any

import pytest

pytest.importorskip("trl")
import torch
from peft import LoraConfig, get_peft_model
from torch.nn import functional
from transformers import GPT2Config, MistralConfig, Qwen2Config, set_seed

import tpo.llm.sampling.sampler
from support.model_kinds import CONFIGS, SHAPE, made
from tpo.llm.sampling.decoding import Decoder, by_cumulative_sum, by_gumbel_noise
from tpo.llm.sampling.fast_llama import MODEL_TYPES, FastLlama
from tpo.llm.sampling.sampler import Sampler, fits, weights

PROMPTS = [[5], [3, 4, 5, 6, 7], [9, 2, 4], [5], [9, 2, 4]]


def sampler(model: Any, **changes: Any) -> Sampler:
    return Sampler(model, **({"ends": [1], "pad": 0, "tokens": 12, "rows": 8} | changes))


def generated(model: Any, prompt: list[int]) -> list[int]:
    out = model.generate(torch.tensor([prompt]), do_sample=False, max_new_tokens=12, pad_token_id=0)
    row = out[0, len(prompt) :].tolist()
    return row[: row.index(1) + 1] if 1 in row else row


@pytest.mark.parametrize("kind", MODEL_TYPES)
@pytest.mark.parametrize("rows", [8, 2], ids=["one block", "blocks of two"])
def test_the_likeliest_tokens_are_those_of_transformers(kind: str, rows: int) -> None:
    model = made(CONFIGS[kind])
    assert fits(model)
    found = sampler(model, rows=rows)(PROMPTS, temperature=None)
    assert found == [generated(model, prompt) for prompt in PROMPTS]
    assert any(len(row) < 12 for row in found) or len({*map(tuple, found)}) > 1


def test_a_kernel_may_return_attention_in_any_memory_layout(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model, attended = made(CONFIGS["llama"]), functional.scaled_dot_product_attention

    def tokens_first(*given: Any, **options: Any) -> torch.Tensor:
        """As torch's memory-efficient kernel leaves it: heads within tokens."""
        return attended(*given, **options).transpose(1, 2).contiguous().transpose(1, 2)

    expected = sampler(model)(PROMPTS, None)
    monkeypatch.setattr(functional, "scaled_dot_product_attention", tokens_first)
    assert sampler(model)(PROMPTS, None) == expected


def test_samples_follow_the_probabilities_of_the_model() -> None:
    model, prompt, n, temperature = made(CONFIGS["llama"]), [3, 4, 5], 4000, 1.5
    set_seed(1)
    pairs = Counter(
        tuple(row)
        for row in sampler(model, tokens=2, rows=n)([prompt] * n, temperature=temperature)
    )
    with torch.no_grad():
        first = (model(torch.tensor([prompt])).logits[0, -1] / temperature).softmax(-1)
        nexts = [
            (model(torch.tensor([[*prompt, a]])).logits[0, -1] / temperature).softmax(-1)
            for a in range(12)
        ]
    expected = {
        (a, b): float(first[a] * nexts[a][b]) for a in range(12) for b in range(12) if a != 1
    }
    expected[(1,)] = float(first[1])
    square = sum((pairs[k] - n * p) ** 2 / (n * p) for k, p in expected.items() if n * p > 5)
    cells = sum(n * p > 5 for p in expected.values())
    assert sum(pairs.values()) == n
    assert square < cells + 4 * (2 * cells) ** 0.5


@pytest.mark.parametrize("draw", [by_gumbel_noise, by_cumulative_sum])
def test_a_draw_follows_softmax(draw: Any) -> None:
    n, scores = 20_000, torch.tensor([0.0, -torch.inf, 1.0, -2.0, 0.5])
    set_seed(2)
    drawn = draw(scores.expand(n, -1), torch.ones(()))
    counts = torch.bincount(drawn[:, 0], minlength=5)
    expected = n * scores.softmax(-1)
    assert counts[1] == 0
    assert ((counts - expected).abs() <= 4 * expected.sqrt()).all()
    assert draw(scores[None], torch.zeros(())).tolist() == [[2]]


def adapted(tied: bool = False, **lora: Any) -> Any:
    model = made(Qwen2Config(**SHAPE, tie_word_embeddings=tied))
    return get_peft_model(
        model, LoraConfig(r=2, **{"target_modules": "all-linear", "task_type": "CAUSAL_LM", **lora})
    )


@pytest.mark.parametrize(
    "lora", [{}, {"tied": True}, {"target_modules": ["v_proj", "up_proj"]}], ids=str
)
def test_lora_is_included_and_new_weights_are_used(lora: dict[str, Any]) -> None:
    model = adapted(**lora)
    assert fits(model)
    draw = sampler(model)
    before = draw(PROMPTS, temperature=None)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if "lora_B" in name:
                weight.normal_()
    after = draw(PROMPTS, temperature=None)
    model.eval()
    assert after != before
    assert after == [generated(model, prompt) for prompt in PROMPTS]


def test_two_adapters_add_up() -> None:
    model = adapted()
    model.add_adapter("more", LoraConfig(r=3, lora_alpha=5, target_modules=["k_proj"]))
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if "lora_B" in name:
                weight.normal_()
    model.base_model.set_adapter(["default", "more"])
    model.eval()
    assert sampler(model)(PROMPTS, None) == [generated(model, prompt) for prompt in PROMPTS]


def test_a_small_update_of_lora_is_not_rounded_away() -> None:
    """Weights in bfloat16, as on a hub: a change of a thousandth of their last digit is kept."""
    model = adapted().get_base_model()
    with torch.no_grad():
        for name, weight in model.named_parameters():
            weight.copy_(
                1e-5 * torch.randn(weight.shape) if "lora_B" in name else weight.bfloat16()
            )
    fast = FastLlama(model, weights(model), torch.bfloat16)
    with torch.no_grad():
        fast.load(weights(model))
    found = fast.layers[0].gate_up
    assert found.A is not None
    assert found.B is not None
    for module, rows in (("gate_proj", slice(0, 32)), ("up_proj", slice(32, 64))):
        layer = model.get_submodule(f"model.layers.0.mlp.{module}")
        change = layer.get_delta_weight("default")
        own = layer.base_layer.weight.double()
        read = found.W[rows].double() + found.B[rows].double() @ found.A.double()
        assert change.abs().max() > 0
        assert (read - own - change).abs().max() < 0.02 * change.abs().max()
        assert ((own + change).bfloat16() == own).float().mean() > 0.9  # what merging would keep


@pytest.mark.filterwarnings("ignore:.*tie:UserWarning")
@pytest.mark.parametrize(
    "lora",
    [
        {"use_dora": True},
        {"trainable_token_indices": [3]},
        {"layer_replication": [(0, 2), (1, 3)]},
        {"alora_invocation_tokens": [4, 5]},
        {"tied": True, "target_modules": ["q_proj", "lm_head"]},
        {"tied": True, "target_modules": ["q_proj", "embed_tokens"]},
        {"target_modules": ["q_proj", "lm_head"]},
    ],
    ids=str,
)
def test_lora_that_is_more_than_a_sum_does_not_fit(lora: dict[str, Any]) -> None:
    assert not fits(adapted(**lora))


def test_autocast_around_it_changes_nothing() -> None:
    draw, seen = sampler(made(CONFIGS["qwen3"])), []
    draw._fast_model.rope.register_forward_hook(
        lambda *_: seen.append(torch.is_autocast_enabled("cpu"))
    )
    with torch.autocast("cpu", torch.bfloat16):
        draw(PROMPTS)
    assert seen
    assert not any(seen)


@pytest.mark.parametrize(
    "config",
    [
        GPT2Config(vocab_size=12, n_embd=16, n_layer=1, n_head=2),
        MistralConfig(**SHAPE, sliding_window=4),
        Qwen2Config(**SHAPE, use_sliding_window=True, sliding_window=4, max_window_layers=1),
    ],
    ids=["another kind", "a window", "layers with a window"],
)
def test_a_model_with_another_attention_does_not_fit(config: Any) -> None:
    assert not fits(made(config))


def test_the_same_seed_draws_the_same() -> None:
    draw = sampler(made(CONFIGS["qwen3"]))
    draws = []
    for seed in (0, 0, 1):
        set_seed(seed)
        draws.append(draw(PROMPTS))
    assert [a == b for a, b in pairwise(draws)] == [True, False]


def test_rows_that_have_not_ended_move_to_a_smaller_decoder(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of 12 rows most end early; the tokens of the others must not depend on which rows are left."""
    model = made(CONFIGS["llama"])
    prompts = [[a, b] for a in range(2, 6) for b in (3, 7, 9)]
    monkeypatch.setattr(tpo.llm.sampling.sampler, "CHECK_EVERY", 1)
    sizes = []
    plain = Decoder.take_over

    def noted(self: Decoder, other: Decoder, rows: torch.Tensor) -> None:
        sizes.append((other.rows, self.rows, len(rows)))
        plain(self, other, rows)

    monkeypatch.setattr(Decoder, "take_over", noted)
    whole = sampler(model, rows=12, tokens=40)(prompts, temperature=None)
    assert not sizes
    monkeypatch.setattr(tpo.llm.sampling.sampler, "MIN_ROWS", 2)
    assert sampler(model, rows=12, tokens=40)(prompts, temperature=None) == whole
    assert len(sizes) > 1
    assert all(n <= after == before // 2 for before, after, n in sizes)
    assert len({*map(len, whole)}) > 3

"""Packed groups give the numbers of separate sequences, and the same gradient."""

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("trl")
import torch

from support.model_kinds import CONFIGS, made
from tpo.llm.packed import attention
from tpo.llm.packed import log_probs as module
from tpo.llm.packed.log_probs import Rows, packed, shared
from tpo.llm.sampling.fast_llama import MODEL_TYPES

K, C = 3, 4
PROMPTS = [[3, 4, 5], [9], [2, 2, 8, 7, 6]]
LENGTHS = [[4, 1, 2], [0, 3, 4], [2, 2, 2]]


def batch() -> tuple[torch.Tensor, ...]:
    """Three groups with prompts on the right and completions on the left of [n, 5] and [n, 4]."""
    draw = torch.Generator().manual_seed(0)
    prompts = torch.tensor([[0] * (5 - len(p)) + p for p in PROMPTS for _ in range(K)])
    prompt_mask = torch.tensor(
        [[0] * (5 - len(p)) + [1] * len(p) for p in PROMPTS for _ in range(K)]
    )
    mask = torch.tensor([[1] * n + [0] * (C - n) for row in LENGTHS for n in row])
    completions = torch.randint(2, 12, (len(mask), C), generator=draw) * mask
    return prompts, prompt_mask, completions, mask


def alone(model: Any, temperature: float) -> tuple[torch.Tensor, torch.Tensor]:
    """Log-probs and entropies, each row by itself, without padding."""
    prompts, prompt_mask, completions, mask = batch()
    found, entropies = torch.zeros(mask.shape), torch.zeros(mask.shape)
    for i in range(len(mask)):
        p, c = prompts[i][prompt_mask[i].bool()], completions[i][mask[i].bool()]
        if len(c):
            logits = model(torch.cat([p, c])[None]).logits[0, len(p) - 1 : -1] / temperature
            log_p = logits.log_softmax(-1)
            found[i, : len(c)] = log_p.gather(-1, c[:, None])[:, 0]
            entropies[i, : len(c)] = -(log_p.exp() * log_p).sum(-1)
    return found, entropies


@pytest.mark.parametrize("kind", MODEL_TYPES)
@pytest.mark.parametrize("size", [2048, 5], ids=["one slice", "slices of five"])
def test_a_packed_group_has_the_log_probs_of_its_candidates_alone(
    kind: str, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "TOKENS_PER_SLICE", size)
    model = made(CONFIGS[kind])
    weights = torch.randn(len(LENGTHS) * K, C, generator=torch.Generator().manual_seed(1))
    gradients = []
    expected, expected_entropies = alone(model, 1.3)
    rows = batch()
    found, entropies = module.log_probs(model, packed(*rows, K), rows[3].shape, 1.3, entropies=True)
    assert torch.allclose(found, expected, atol=1e-5)
    assert entropies is not None
    assert torch.allclose(entropies, expected_entropies, atol=1e-5)
    for log_probs in (expected, found):
        model.zero_grad()
        (weights * log_probs).sum().backward()
        gradients.append(torch.cat([p.grad.flatten() for p in model.parameters()]))
    assert torch.allclose(*gradients, atol=1e-5 * gradients[0].abs().max().item())
    assert gradients[0].abs().max() > 0.1


def test_no_token_is_computed_twice_and_no_padding_is_between_candidates() -> None:
    found = packed(*batch(), K)
    assert found.ids.shape == (
        3,
        max(len(p) + sum(n) for p, n in zip(PROMPTS, LENGTHS, strict=True)),
    )
    assert len(found.targets) == sum(map(sum, LENGTHS))


def test_rows_with_different_prompts_are_not_a_group() -> None:
    prompts = batch()[0]
    assert shared(prompts, K)
    assert not shared(prompts[[0, 3, 1, 2, 4, 5, 6, 7, 8]], K)
    assert not shared(prompts[:8], K)


def test_a_forward_pass_has_whole_groups() -> None:
    model = made(CONFIGS["llama"])
    prompts, prompt_mask, completions, mask = batch()
    rows = Rows(torch.cat([prompts, completions], 1), torch.cat([prompt_mask, mask], 1), C)
    for rows_at_once in (None, 3, 4, 1):
        found, none = rows.log_probs(model, K, 1.3, rows_at_once, entropies=False)
        assert torch.allclose(found, alone(model, 1.3)[0], atol=1e-5)
        assert none is None


def test_the_model_is_unchanged_for_other_callers(tmp_path: Path) -> None:
    model = made(CONFIGS["llama"])
    ids = torch.tensor([[3, 4, 5, 6], [7, 8, 2, 2]])
    mask = torch.tensor([[1, 1, 1, 1], [1, 1, 0, 0]])
    before = model(ids, attention_mask=mask).logits
    attention.enable(model)
    assert torch.equal(model(ids, attention_mask=mask).logits, before)
    model.save_pretrained(tmp_path)
    assert attention.NAME not in (tmp_path / "config.json").read_text()


def test_a_candidate_attends_to_its_prompt_and_itself() -> None:
    found = attention.Layout(torch.tensor([2, 1]), torch.tensor([[1, 3], [0, 2]]))
    assert (found.P, found.S, (found.P + found.C) % attention.KEY_MULTIPLE) == (2, 6, 0)
    assert found.candidates.to_rows[~found.padding.flatten()].tolist() == [2, 3, 4, 5, 7, 8]
    own = ~found.no_candidate.flatten()
    assert own.tolist() == [False] * 2 + [True] * 4 + [False] + [True] * 2 + [False] * 3
    for indices in (found.candidates, found.with_prompts):
        back = indices.to_rows[indices.to_sequences[own]]
        assert torch.equal(back, own.nonzero()[:, 0])
    assert found.mask[1, 1].tolist()[:5] == [True, False, True, True, False]
    assert found.bias(torch.float32, 3).shape == (4, 1, 3 * found.C, found.P + found.C)


def test_nan_in_one_group_does_not_reach_the_others() -> None:
    layout = attention.Layout(torch.tensor([2, 1]), torch.tensor([[1, 3], [0, 2]]))
    broken = torch.randn(2, 2, layout.S, 4)
    broken[0] = torch.nan
    x = broken.requires_grad_()
    found, _ = attention.attend(None, x, x, x, None, layout=layout)
    found.nansum().backward()
    assert found[0].isnan().any()
    assert found[1].isfinite().all()
    assert x.grad is not None
    assert x.grad[1].isfinite().all()


def test_the_mask_is_made_once_in_the_precision_of_attention() -> None:
    x = torch.zeros(1)
    assert attention._compute_dtype(x) is torch.float32
    with torch.autocast("cpu", torch.bfloat16):
        assert attention._compute_dtype(x) is torch.bfloat16
    layout = attention.Layout(torch.tensor([2]), torch.tensor([[1, 3]]))
    assert layout.bias(torch.bfloat16, 2) is layout.bias(torch.bfloat16, 2)


def test_attention_is_not_quadratic_in_the_packed_sequence(monkeypatch: pytest.MonkeyPatch) -> None:
    pairs = []
    plain = torch.nn.functional.scaled_dot_product_attention

    def counted(query: torch.Tensor, key: torch.Tensor, *more: Any, **given: Any) -> torch.Tensor:
        pairs.append(query.shape[0] * query.shape[1] * query.shape[2] * key.shape[2])
        return plain(query, key, *more, **given)

    monkeypatch.setattr(torch.nn.functional, "scaled_dot_product_attention", counted)
    model = made(CONFIGS["llama"])
    n, P, T, config = 8, 8, 24, model.config
    ids = torch.full((n, P), 3)
    own = torch.full((n, T), 5)
    module.log_probs(model, packed(ids, ids > 0, own, own > 0, n), own.shape, 1.0)
    heads, layers = config.num_attention_heads, config.num_hidden_layers
    assert sum(pairs) == layers * heads * (P * P + n * T * (P + T))
    assert sum(pairs) < layers * heads * (P + n * T) ** 2 / 6

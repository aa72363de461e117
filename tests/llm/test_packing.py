"""Packed groups give the numbers of separate sequences, and the same gradient."""

from typing import Any

import pytest

pytest.importorskip("trl")
import torch
from test_sampler import CONFIGS, made

from tpo.llm import packing
from tpo.llm.packing import Rows, packed, shared
from tpo.llm.reader import KNOWN

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


@pytest.mark.parametrize("kind", KNOWN)
@pytest.mark.parametrize("size", [2048, 5], ids=["one slice", "slices of five"])
def test_a_packed_group_is_its_candidates_alone(
    kind: str, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(packing, "SLICE", size)
    model = made(CONFIGS[kind])
    weights = torch.randn(len(LENGTHS) * K, C, generator=torch.Generator().manual_seed(1))
    gradients = []
    expected, expected_entropies = alone(model, 1.3)
    rows = batch()
    found, entropies = packing.log_probs(
        model, packed(*rows, K), rows[3].shape, 1.3, entropies=True
    )
    assert torch.allclose(found, expected, atol=1e-5)
    assert entropies is not None
    assert torch.allclose(entropies, expected_entropies, atol=1e-5)
    for log_probs in (expected, found):
        model.zero_grad()
        (weights * log_probs).sum().backward()
        gradients.append(torch.cat([p.grad.flatten() for p in model.parameters()]))
    assert torch.allclose(*gradients, atol=1e-5 * gradients[0].abs().max().item())
    assert gradients[0].abs().max() > 0.1


def test_no_token_is_read_twice_and_none_is_padding_between_candidates() -> None:
    found = packed(*batch(), K)
    assert found.ids.shape == (
        3,
        max(len(p) + sum(n) for p, n in zip(PROMPTS, LENGTHS, strict=True)),
    )
    assert len(found.at) == sum(map(sum, LENGTHS))


def test_rows_of_other_prompts_are_no_group() -> None:
    prompts = batch()[0]
    assert shared(prompts, K)
    assert not shared(prompts[[0, 3, 1, 2, 4, 5, 6, 7, 8]], K)
    assert not shared(prompts[:8], K)


def test_rows_at_once_are_whole_groups() -> None:
    model = made(CONFIGS["llama"])
    prompts, prompt_mask, completions, mask = batch()
    rows = Rows(torch.cat([prompts, completions], 1), torch.cat([prompt_mask, mask], 1), C)
    for at_once in (None, 3, 4, 1):
        found, none = rows.log_probs(model, K, 1.3, at_once, entropies=False)
        assert torch.allclose(found, alone(model, 1.3)[0], atol=1e-5)
        assert none is None

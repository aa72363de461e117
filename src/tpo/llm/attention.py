"""Attention of packed groups: a candidate sees its prompt and itself, and nothing else is computed.

Tokens of a group stand in one sequence, so that linear layers read the prompt once. For attention candidates
become rows again, each with the prompt's keys before its own: K·C·(P + C) pairs of tokens instead of the square
of the whole sequence. transformers knows it by name; without a layout it is torch's own attention.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.nn import functional
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

Tensor = torch.Tensor
NAME = "tpo_groups"
"""What transformers calls it."""
PLAIN = "sdpa"
"""What it stands in for."""
ALIGNED = 8
"""Keys come in multiples of this, which is the width of mask that a GPU's fast kernels want."""


def additive(looks: Tensor, dtype: torch.dtype) -> Tensor:
    """0 where a token looks and -infinity elsewhere: what attention adds."""
    zeros = torch.zeros(looks.shape, dtype=dtype, device=looks.device)
    return zeros.masked_fill(~looks, -torch.inf)


class Layout:
    """Where the tokens of G packed groups of K candidates stand.

    A group starts with its prompt, `prompts` [G] tokens long, and its candidates follow, `lengths` [G, K].
    """

    def __init__(self, prompts: Tensor, lengths: Tensor) -> None:
        """G and K are those of `lengths`."""
        self.G, self.K = lengths.shape
        self.P = int(prompts.max())
        self.S = int((prompts + lengths.sum(-1)).max())
        longest = max(1, int(lengths.max()))
        self.C = longest + -(self.P + longest) % ALIGNED
        start = prompts[:, None] + lengths.cumsum(-1) - lengths
        t = torch.arange(self.C, device=lengths.device)
        there = t < lengths[..., None]
        self.index = torch.where(there, start[..., None] + t, self.S).reshape(self.G, -1)
        """[G, K·C] where in [S] a candidate's tokens are; S behind its end"""
        prompt = torch.arange(self.P, device=lengths.device) < prompts[:, None]
        own = t[None, :] <= t[:, None]
        self.seen = torch.cat(
            [
                prompt[:, None].expand(-1, self.C, -1),
                own.expand(self.G, -1, -1),
            ],
            -1,
        )
        """[G, C, P + C] what a candidate's token sees: the prompt and the candidate up to itself"""
        self._bias: dict[tuple[torch.dtype, int], Tensor] = {}

    def bias(self, dtype: torch.dtype, share: int) -> Tensor:
        """[G·K, 1, share·C, P + C] what attention adds, for `share` heads that look at the same keys."""
        if (dtype, share) not in self._bias:
            one = additive(self.seen, dtype).repeat(1, share, 1)
            self._bias[dtype, share] = one.repeat_interleave(self.K, 0)[:, None]
        return self._bias[dtype, share]

    def rows(self, x: Tensor, share: int = 1) -> Tensor:
        """Candidates of [G, heads, S, width] as [G, K, heads/share, share·C, width]."""
        G, heads, S, width = x.shape
        at = self.index.clamp(max=S - 1)[:, None, :, None].expand(-1, heads, -1, width)
        found = x.gather(2, at).view(G, heads // share, share, self.K, self.C, width)
        return found.permute(0, 3, 1, 2, 4, 5).reshape(G, self.K, -1, share * self.C, width)

    def sequence(self, prompts: Tensor, rows: Tensor) -> Tensor:
        """[G, heads, S, width] of prompts [G, heads, P, width] and what `rows` made of candidates."""
        G, heads, P, width = prompts.shape
        found = rows.view(G, self.K, -1, heads // rows.shape[2], self.C, width)
        found = found.permute(0, 2, 3, 1, 4, 5).reshape(G, heads, -1, width)
        whole = functional.pad(prompts, (0, 0, 0, self.S + 1 - P))
        at = self.index[:, None, :, None].expand(-1, heads, -1, width)
        return whole.scatter(2, at, found)[:, :, : self.S]


def attend(
    module: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float | None = None,
    dropout: float = 0.0,
    groups: Layout | None = None,
    **more: Any,
) -> tuple[Tensor, None]:
    """[G, S, heads, width] from queries, keys and values [G, heads, S, width], as transformers has them."""
    if groups is None:
        found: tuple[Tensor, None] = sdpa_attention_forward(
            module, query, key, value, attention_mask, dropout=dropout, scaling=scaling, **more
        )
        return found
    share = query.shape[1] // key.shape[1]
    head = slice(0, groups.P)
    prompts = functional.scaled_dot_product_attention(
        query[:, :, head],
        key[:, :, head],
        value[:, :, head],
        is_causal=True,
        dropout_p=dropout,
        scale=scaling,
        enable_gqa=share > 1,
    )
    keys, values = (
        torch.cat([x[:, None, :, head].expand(-1, groups.K, -1, -1, -1), groups.rows(x)], 3)
        for x in (key, value)
    )
    candidates = functional.scaled_dot_product_attention(
        groups.rows(query, share).flatten(0, 1),
        keys.flatten(0, 1),
        values.flatten(0, 1),
        attn_mask=groups.bias(query.dtype, share),
        dropout_p=dropout,
        scale=scaling,
    )
    rows = candidates.view(groups.G, groups.K, *candidates.shape[1:])
    return groups.sequence(prompts, rows).transpose(1, 2).contiguous(), None


def use(model: Any) -> None:
    """Have a transformers model attend with this."""
    if model.config._attn_implementation != NAME:
        model.set_attn_implementation(NAME)


AttentionInterface.register(NAME, attend)
AttentionMaskInterface.register(NAME, sdpa_mask)

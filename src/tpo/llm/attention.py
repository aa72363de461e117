"""Attention of packed groups: a candidate sees its prompt and itself, and nothing else is computed.

Tokens of a group stand in one sequence, so that linear layers read the prompt once. For attention candidates
become rows again, each with the prompt's keys before its own: K·C·(P + C) pairs of tokens instead of the square
of the whole sequence. transformers knows it by name; without a layout it is torch's own attention.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.autograd.function import once_differentiable
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


class _Moved(torch.autograd.Function):
    """x[index] of rows [n, ...]. `back` [n] finds a row again and `there` [n] says whether it went anywhere.

    No row that is there was taken twice, so that gradients are looked up as well, instead of added up.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, index: Tensor, back: Tensor, there: Tensor) -> Tensor:
        ctx.save_for_backward(back, there)
        return x.index_select(0, index)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None, None]:
        back, there = ctx.saved_tensors
        found = gradient.index_select(0, back)
        return found.masked_fill_(~there.view(-1, *[1] * (found.ndim - 1)), 0), None, None, None


_moved: Callable[[Tensor, Tensor, Tensor, Tensor], Tensor] = _Moved.apply


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
        device, size = lengths.device, self.G * self.S
        start = prompts[:, None] + lengths.cumsum(-1) - lengths
        start = start + self.S * torch.arange(self.G, device=device)[:, None]
        t = torch.arange(self.C, device=device)
        self.filled = (t < lengths[..., None]).flatten()
        """[G·K·C] whether a candidate has a token there"""
        place = torch.where(self.filled, (start[..., None] + t).flatten(), size)
        found = torch.full((size + 1,), -1, device=device)
        found = found.scatter(0, place, torch.arange(len(place), device=device))[:size]
        self.own = found >= 0
        """[G·S] whether a token is a candidate's"""
        self.to_rows, self.to_sequence = place.clamp(max=size - 1), found.clamp(min=0)
        """[G·K·C] where in [G·S] a candidate's token is; [G·S] where in [G·K·C] it went"""
        self.prompt = torch.arange(self.P, device=device) < prompts[:, None]
        """[G, P] whether a token is the prompt's"""
        own = t[None, :] <= t[:, None]
        self.seen = torch.cat(
            [
                self.prompt[:, None].expand(-1, self.C, -1),
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

    def rows(self, x: Tensor) -> Tensor:
        """[G, K, C, heads, width] candidates of [G, S, heads, width]."""
        found = _moved(x.flatten(0, 1), self.to_rows, self.to_sequence, self.own)
        return found.view(self.G, self.K, self.C, *x.shape[2:])

    def sequence(self, prompts: Tensor, rows: Tensor) -> Tensor:
        """[G, S, heads, width] of prompts [G, P, heads, width] and what `rows` made of candidates."""
        flat = rows.reshape(-1, *rows.shape[3:])
        found = _moved(flat, self.to_sequence, self.to_rows, self.filled)
        found = found.view(self.G, self.S, *rows.shape[3:])
        head = torch.where(self.prompt[..., None, None], prompts, found[:, : self.P])
        return torch.cat([head, found[:, self.P :]], 1)


def _computed(x: Tensor) -> torch.dtype:
    """What attention computes x in: under autocast every layer would make a mask of its own, and keep it."""
    device = x.device.type
    return torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else x.dtype


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
    G, K, P, C = groups.G, groups.K, groups.P, groups.C
    heads, shared, width = query.shape[1], key.shape[1], query.shape[-1]
    share = heads // shared
    prompts = functional.scaled_dot_product_attention(
        query[:, :, :P],
        key[:, :, :P],
        value[:, :, :P],
        is_causal=True,
        dropout_p=dropout,
        scale=scaling,
        enable_gqa=share > 1,
    )
    queries, *others = (x.transpose(1, 2) for x in (query, key, value))
    folded = groups.rows(queries).view(G * K, C, shared, share, width).permute(0, 2, 3, 1, 4)
    keys, values = (
        torch.cat([x[:, None, :P].expand(-1, K, -1, -1, -1), groups.rows(x)], 2).flatten(0, 1)
        for x in others
    )
    candidates = functional.scaled_dot_product_attention(
        folded.reshape(G * K, shared, share * C, width),
        keys.transpose(1, 2),
        values.transpose(1, 2),
        attn_mask=groups.bias(_computed(query), share),
        dropout_p=dropout,
        scale=scaling,
    )
    rows = candidates.view(G * K, shared, share, C, width).permute(0, 3, 1, 2, 4)
    return groups.sequence(prompts.transpose(1, 2), rows.reshape(G, K, C, heads, width)), None


cudnn_allowed: Callable[[], bool] = torch.backends.cuda.cudnn_sdp_enabled
"""Whether torch may attend with cuDNN."""


@contextmanager
def cudnn(allowed: bool) -> Iterator[bool]:
    """Let torch attend with cuDNN or not, and give what was allowed before.

    With a mask, cuDNN's gradient is NaN at some lengths (pytorch issue 196678).
    """
    before = cudnn_allowed()
    torch.backends.cuda.enable_cudnn_sdp(allowed)
    try:
        yield before
    finally:
        torch.backends.cuda.enable_cudnn_sdp(before)


def use(model: Any) -> None:
    """Have a transformers model attend with this."""
    if model.config._attn_implementation != NAME:
        model.set_attn_implementation(NAME)


AttentionInterface.register(NAME, attend)
AttentionMaskInterface.register(NAME, sdpa_mask)

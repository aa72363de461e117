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


class _Parted(torch.autograd.Function):
    """Groups [G, S, ...] as prompts [G, P, ...] and candidates [G, K, C, ...].

    Candidates may come `behind` their prompts, [G, K, P + C, ...]. Gradients are looked up where a token went;
    only those of prompts are added up.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, groups: Layout, behind: bool) -> tuple[Tensor, Tensor]:
        ctx.groups, ctx.behind = groups, behind
        return x[:, : groups.P].clone(), groups.rows(x, behind)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, prompts: Tensor, rows: Tensor) -> tuple[Tensor, None, None]:
        groups = ctx.groups
        found = groups.sequence(rows, ctx.behind)
        found.masked_fill_(_like(groups.not_own, found), 0)
        head = found[:, : groups.P].add_(prompts)
        if ctx.behind:
            head.add_(rows[:, :, : groups.P].sum(1))
        return found, None, None


class _Joined(torch.autograd.Function):
    """Groups [G, S, ...] of prompts [G, P, ...] and candidates [G, K, C, ...]."""

    @staticmethod
    def forward(ctx: Any, prompts: Tensor, rows: Tensor, groups: Layout) -> Tensor:
        ctx.groups = groups
        found = groups.sequence(rows)
        head = found[:, : groups.P]
        head.copy_(torch.where(_like(groups.prompt, head), prompts, head))
        return found

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, x: Tensor) -> tuple[Tensor, Tensor, None]:
        groups = ctx.groups
        head, rows = x[:, : groups.P], groups.rows(x)
        rows.masked_fill_(_like(groups.empty, rows), 0)
        return torch.where(_like(groups.prompt, head), head, 0), rows, None


def _like(places: Tensor, x: Tensor) -> Tensor:
    """Places in the first dimensions of x, for all of the others."""
    return places.view(*places.shape, *[1] * (x.ndim - places.ndim))


_parted: Callable[[Tensor, Layout, bool], tuple[Tensor, Tensor]] = _Parted.apply
_joined: Callable[[Tensor, Tensor, Layout], Tensor] = _Joined.apply


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
        device = lengths.device
        t = torch.arange(self.C, device=device)
        group = torch.arange(self.G, device=device)[:, None]
        start = self.S * group + prompts[:, None] + lengths.cumsum(-1) - lengths
        self.empty = t >= lengths[..., None]
        """[G, K, C] whether a candidate has no token there"""
        places = torch.where(self.empty, self.S * group[..., None], start[..., None] + t)
        self.to_rows = places.flatten()
        """[G·K·C] where in [G·S] a candidate's token is; where it has none, the first of its group"""
        filled = (~self.empty).flatten().nonzero()[:, 0]
        found = torch.full((self.G * self.S,), -1, device=device)
        found[self.to_rows[filled]] = filled
        found = found.view(self.G, self.S)
        self.not_own = found < 0
        """[G, S] whether a token is no candidate's: the prompt's, or behind the last"""
        self.in_rows = torch.where(self.not_own, self.K * self.C * group, found).flatten()
        """[G·S] where in [G·K·C] a candidate's token went"""
        prompt_places = self.S * group + torch.arange(self.P, device=device)
        before = prompt_places[:, None].expand(-1, self.K, -1)
        self.to_keys = torch.cat([before, places], -1).flatten()
        """[G·K·(P + C)] where in [G·S] the tokens of a candidate behind its prompt are"""
        self.in_keys = self.in_rows + self.P * (self.in_rows // self.C + 1)
        """[G·S] where in [G·K·(P + C)] a candidate's token went"""
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

    def rows(self, x: Tensor, behind: bool = False) -> Tensor:
        """[G, K, C, ...] candidates of [G, S, ...], or `behind` prompts; anything where one has no token."""
        found = x.flatten(0, 1).index_select(0, self.to_keys if behind else self.to_rows)
        return found.view(self.G, self.K, -1, *x.shape[2:])

    def sequence(self, rows: Tensor, behind: bool = False) -> Tensor:
        """[G, S, ...] of what `rows` made of candidates; anything where a token is no candidate's."""
        found = rows.flatten(0, 2).index_select(0, self.in_keys if behind else self.in_rows)
        return found.view(self.G, self.S, *rows.shape[3:])


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
    G, K, C = groups.G, groups.K, groups.C
    heads, shared, width = query.shape[1], key.shape[1], query.shape[-1]
    share = heads // shared
    dtype = _computed(query)
    query, key, value = (x.transpose(1, 2).to(dtype) for x in (query, key, value))
    first, own = _parted(query, groups, False)
    first_key, keys = _parted(key, groups, True)
    first_value, values = _parted(value, groups, True)
    prompts = functional.scaled_dot_product_attention(
        first.transpose(1, 2),
        first_key.transpose(1, 2),
        first_value.transpose(1, 2),
        is_causal=True,
        dropout_p=dropout,
        scale=scaling,
        enable_gqa=share > 1,
    )
    folded = own.view(G * K, C, shared, share, width).permute(0, 2, 3, 1, 4)
    candidates = functional.scaled_dot_product_attention(
        folded.reshape(G * K, shared, share * C, width),
        keys.flatten(0, 1).transpose(1, 2),
        values.flatten(0, 1).transpose(1, 2),
        attn_mask=groups.bias(dtype, share),
        dropout_p=dropout,
        scale=scaling,
    )
    rows = candidates.view(G * K, shared, share, C, width).permute(0, 3, 1, 2, 4)
    rows = rows.reshape(G, K, C, heads, width)
    return _joined(prompts.transpose(1, 2), rows, groups), None


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

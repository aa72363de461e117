"""Attention of packed groups: a candidate attends to its prompt and to its own earlier tokens.

The tokens of a group are one sequence, so that linear layers compute the prompt once. For attention the
candidates become padded rows again, each with the prompt's keys before its own. That is K·C·(P + C) pairs of
tokens instead of the square of the whole sequence. The implementation is registered with transformers. Without
a layout it is torch's own attention.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch.autograd.function import once_differentiable
from torch.nn import functional
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

Tensor = torch.Tensor
NAME = "tpo_groups"
"""The name of this attention implementation in transformers."""
PLAIN = "sdpa"
"""The implementation of transformers that this one replaces."""
KEY_MULTIPLE = 8
"""Rows are padded to a multiple of this many keys: the fast kernels of a GPU need a mask of such a width."""


def additive_mask(allowed: Tensor, dtype: torch.dtype) -> Tensor:
    """0 where attention is allowed and -infinity elsewhere, to be added to the attention scores."""
    zeros = torch.zeros(allowed.shape, dtype=dtype, device=allowed.device)
    return zeros.masked_fill(~allowed, -torch.inf)


class GatherIndices(NamedTuple):
    """Indices that copy tokens from packed sequences [G·S] to padded rows [G·K·L], and back."""

    to_rows: Tensor
    """[G·K·L] where in [G·S] the token of each place of a row is; for padding, the first token of its group"""
    to_sequences: Tensor
    """[G·S] where in [G·K·L] each candidate's token is; for other tokens, some place of their group"""


class Layout:
    """Where the tokens of G packed groups of K candidates are, in packed sequences and in padded rows.

    A packed sequence has S places: a prompt, `prompts` [G] tokens long, then its candidates, `lengths` [G, K].
    A row has C places for one candidate, or P + C with the prompt before it.
    """

    def __init__(self, prompts: Tensor, lengths: Tensor) -> None:
        """G and K are the shape of `lengths`; S, P and C follow from the longest."""
        self.G, self.K = lengths.shape
        self.P = int(prompts.max())
        self.S = int((prompts + lengths.sum(-1)).max())
        longest = max(1, int(lengths.max()))
        self.C = longest + -(self.P + longest) % KEY_MULTIPLE
        t = torch.arange(self.C, device=lengths.device)
        self.padding = t >= lengths[..., None]
        """[G, K, C] whether a candidate has no token there"""
        self.is_prompt = torch.arange(self.P, device=lengths.device) < prompts[:, None]
        """[G, P] whether a token belongs to the prompt"""
        group_starts = self.S * torch.arange(self.G, device=lengths.device)[:, None]
        starts = group_starts + prompts[:, None] + lengths.cumsum(-1) - lengths
        places = torch.where(self.padding, group_starts[..., None], starts[..., None] + t)
        in_rows = self._in_rows(places)
        self.no_candidate = in_rows < 0
        """[G, S] whether a token belongs to no candidate: it is the prompt's, or padding at the end"""
        self.candidates = self._candidate_indices(places, in_rows)
        """for rows of candidates alone, L = C"""
        self.with_prompts = self._indices_with_prompts(places, group_starts)
        """for rows of candidates with their prompts before them, L = P + C"""
        prompt = self.is_prompt[:, None].expand(-1, self.C, -1)
        causal = (t[None, :] <= t[:, None]).expand(self.G, -1, -1)
        self.mask = torch.cat([prompt, causal], -1)
        """[G, C, P + C] what a candidate's token attends to: the prompt, and the candidate up to that token"""
        self._biases: dict[tuple[torch.dtype, int], Tensor] = {}

    def _in_rows(self, places: Tensor) -> Tensor:
        """[G, S] where in [G·K·C] each candidate's token is; -1 for other tokens."""
        filled = (~self.padding).flatten().nonzero()[:, 0]
        found = torch.full((self.G * self.S,), -1, device=places.device)
        found[places.flatten()[filled]] = filled
        return found.view(self.G, self.S)

    def _candidate_indices(self, places: Tensor, in_rows: Tensor) -> GatherIndices:
        first = self.K * self.C * torch.arange(self.G, device=places.device)[:, None]
        return GatherIndices(
            places.flatten(), torch.where(self.no_candidate, first, in_rows).flatten()
        )

    def _indices_with_prompts(self, places: Tensor, group_starts: Tensor) -> GatherIndices:
        prompt = group_starts + torch.arange(self.P, device=places.device)
        before = prompt[:, None].expand(-1, self.K, -1)
        alone = self.candidates.to_sequences
        prompts_before = alone // self.C + 1
        return GatherIndices(
            torch.cat([before, places], -1).flatten(), alone + self.P * prompts_before
        )

    def bias(self, dtype: torch.dtype, share: int) -> Tensor:
        """[G·K, 1, share·C, P + C] the mask to add to scores, for `share` heads with the same keys."""
        if (dtype, share) not in self._biases:
            one = additive_mask(self.mask, dtype).repeat(1, share, 1)
            self._biases[dtype, share] = one.repeat_interleave(self.K, 0)[:, None]
        return self._biases[dtype, share]

    def rows(self, x: Tensor, with_prompts: bool = False) -> Tensor:
        """[G, K, L, ...] rows of the packed [G, S, ...]; the values of padding are arbitrary."""
        indices = self.with_prompts if with_prompts else self.candidates
        found = x.flatten(0, 1).index_select(0, indices.to_rows)
        return found.view(self.G, self.K, -1, *x.shape[2:])

    def sequences(self, rows: Tensor, with_prompts: bool = False) -> Tensor:
        """[G, S, ...] of the rows [G, K, L, ...]; arbitrary values where a token belongs to no candidate."""
        indices = self.with_prompts if with_prompts else self.candidates
        found = rows.flatten(0, 2).index_select(0, indices.to_sequences)
        return found.view(self.G, self.S, *rows.shape[3:])


class _Split(torch.autograd.Function):
    """Packed groups [G, S, ...] to prompts [G, P, ...] and rows [G, K, L, ...].

    The gradient of a candidate's token is gathered from its place in the rows. Only the gradients of prompt
    tokens, which are in several rows, are summed.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, layout: Layout, with_prompts: bool) -> tuple[Tensor, Tensor]:
        ctx.layout, ctx.with_prompts = layout, with_prompts
        return x[:, : layout.P].clone(), layout.rows(x, with_prompts)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, prompts: Tensor, rows: Tensor) -> tuple[Tensor, None, None]:
        layout = ctx.layout
        found = layout.sequences(rows, ctx.with_prompts)
        found.masked_fill_(_broadcastable(layout.no_candidate, found), 0)
        head = found[:, : layout.P].add_(prompts)
        if ctx.with_prompts:
            head.add_(rows[:, :, : layout.P].sum(1))
        return found, None, None


class _Join(torch.autograd.Function):
    """Prompts [G, P, ...] and candidates [G, K, C, ...] to packed groups [G, S, ...]."""

    @staticmethod
    def forward(ctx: Any, prompts: Tensor, rows: Tensor, layout: Layout) -> Tensor:
        ctx.layout = layout
        found = layout.sequences(rows)
        head = found[:, : layout.P]
        head.copy_(torch.where(_broadcastable(layout.is_prompt, head), prompts, head))
        return found

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, x: Tensor) -> tuple[Tensor, Tensor, None]:
        layout = ctx.layout
        head, rows = x[:, : layout.P], layout.rows(x)
        rows.masked_fill_(_broadcastable(layout.padding, rows), 0)
        return torch.where(_broadcastable(layout.is_prompt, head), head, 0), rows, None


def _broadcastable(mask: Tensor, x: Tensor) -> Tensor:
    """A mask of the first dimensions of x, with a dimension of size 1 for each of the others."""
    return mask.view(*mask.shape, *[1] * (x.ndim - mask.ndim))


_split: Callable[[Tensor, Layout, bool], tuple[Tensor, Tensor]] = _Split.apply
_join: Callable[[Tensor, Tensor, Layout], Tensor] = _Join.apply


def _compute_dtype(x: Tensor) -> torch.dtype:
    """The precision in which attention computes x.

    Without the cast to it, autocast would convert the mask in every layer and keep each copy.
    """
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
    layout: Layout | None = None,
    **more: Any,
) -> tuple[Tensor, None]:
    """[G, S, heads, width] of queries, keys and values [G, heads, S, width].

    The parameters are those of every attention implementation of transformers, and `layout`.
    """
    if layout is None:
        found: tuple[Tensor, None] = sdpa_attention_forward(
            module, query, key, value, attention_mask, dropout=dropout, scaling=scaling, **more
        )
        return found
    dtype = _compute_dtype(query)
    query, key, value = (x.transpose(1, 2).to(dtype) for x in (query, key, value))
    prompt_queries, queries = _split(query, layout, False)
    prompt_keys, keys = _split(key, layout, True)
    prompt_values, values = _split(value, layout, True)
    prompts = functional.scaled_dot_product_attention(
        prompt_queries.transpose(1, 2),
        prompt_keys.transpose(1, 2),
        prompt_values.transpose(1, 2),
        is_causal=True,
        dropout_p=dropout,
        scale=scaling,
        enable_gqa=query.shape[2] > key.shape[2],
    )
    candidates = _attend_in_rows(layout, queries, keys, values, dropout_p=dropout, scale=scaling)
    return _join(prompts.transpose(1, 2), candidates, layout), None


def _attend_in_rows(
    layout: Layout, queries: Tensor, keys: Tensor, values: Tensor, **options: Any
) -> Tensor:
    """[G, K, C, heads, width] of queries of that shape, and keys and values [G, K, P + C, kv_heads, width].

    Query heads that share keys become one head with more queries, so that keys are not repeated.
    """
    G, K, C, heads, width = queries.shape
    kv_heads = keys.shape[-2]
    share = heads // kv_heads
    folded = queries.view(G * K, C, kv_heads, share, width).permute(0, 2, 3, 1, 4)
    found = functional.scaled_dot_product_attention(
        folded.reshape(G * K, kv_heads, share * C, width),
        keys.flatten(0, 1).transpose(1, 2),
        values.flatten(0, 1).transpose(1, 2),
        attn_mask=layout.bias(queries.dtype, share),
        **options,
    )
    rows = found.view(G * K, kv_heads, share, C, width).permute(0, 3, 1, 2, 4)
    return rows.reshape(G, K, C, heads, width)


cudnn_allowed: Callable[[], bool] = torch.backends.cuda.cudnn_sdp_enabled
"""Whether torch may use the attention of cuDNN."""


@contextmanager
def cudnn(allowed: bool) -> Iterator[bool]:
    """Allow or forbid the attention of cuDNN in a `with` block, which receives what was allowed before.

    With a mask, cuDNN's gradient is NaN at some lengths (pytorch issue 196678).
    """
    before = cudnn_allowed()
    torch.backends.cuda.enable_cudnn_sdp(allowed)
    try:
        yield before
    finally:
        torch.backends.cuda.enable_cudnn_sdp(before)


def enable(model: Any) -> None:
    """Switch a transformers model to this attention implementation."""
    if model.config._attn_implementation != NAME:
        model.set_attn_implementation(NAME)


AttentionInterface.register(NAME, attend)
AttentionMaskInterface.register(NAME, sdpa_mask)

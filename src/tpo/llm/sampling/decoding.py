"""Decoding with preallocated tensors: one cache, one mask, and one step, which is a CUDA graph on a GPU.

No shape depends on the step. So a GPU records it once as a CUDA graph and replays it; a CPU runs the same code.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch

from tpo.llm.packed.attention import KEY_MULTIPLE, additive_mask
from tpo.llm.sampling.fast_llama import FastLlama

Tensor = torch.Tensor


class PromptCache:
    """The keys and values of whole prompts, layer by layer."""

    def __init__(self) -> None:
        """No layer yet: the forward pass over the prompts adds them in their order."""
        self.layers: list[tuple[Tensor, Tensor]] = []

    @property
    def dtype(self) -> torch.dtype:
        """The precision of keys and values."""
        return self.layers[0][0].dtype

    def update(self, layer: int, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """Add keys and values [P, heads, W, width] and return them."""
        self.layers.append((key, value))
        return key, value


class StaticCache:
    """Keys and values [N, heads, L, width] of N rows; each step fills the next of L slots in every row."""

    def __init__(self, like: PromptCache, rows: int, length: int) -> None:
        """Zeros, with the layers, heads, width and precision of these prompts."""
        self.layers = [
            [x.new_zeros(rows, x.shape[1], length, x.shape[3]) for x in pair]
            for pair in like.layers
        ]
        self.next = torch.zeros(1, dtype=torch.long, device=self.layers[0][0].device)

    def fill(self, prompts: PromptCache, prompt_of: Tensor) -> None:
        """Copy the prompt `prompt_of[i]` into row i; the next token goes into the slot behind it."""
        for slots, found in zip(self.layers, prompts.layers, strict=True):
            for to, x in zip(slots, found, strict=True):
                to[:, :, : x.shape[2]] = x[prompt_of]
        self.next.fill_(prompts.layers[0][0].shape[2])

    def update(self, layer: int, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """Write one token's [N, heads, 1, width] into the next slot and return all slots."""
        keys, values = self.layers[layer]
        keys.index_copy_(2, self.next, key)
        values.index_copy_(2, self.next, value)
        return keys, values


class Stopping(NamedTuple):
    """A completion stops after `tokens` tokens, or earlier with one of `ends`; `pad` fills what is left."""

    tokens: int
    ends: Tensor
    pad: int


class Decoder:
    """N rows that grow by one sampled token per step, behind prompts of at most W tokens."""

    def __init__(
        self, model: FastLlama, prompts: PromptCache, rows: int, width: int, stopping: Stopping
    ) -> None:
        """Allocate everything, in the shapes of these prompts; decoding begins with `start`."""
        device, pad = stopping.ends.device, stopping.pad
        self.model, self.stopping = model, stopping
        self.rows, self.width = rows, width
        length = -(-(width + stopping.tokens) // KEY_MULTIPLE) * KEY_MULTIPLE
        self.cache = StaticCache(prompts, rows, length)
        self.mask = torch.full((rows, 1, 1, length), -torch.inf, dtype=prompts.dtype, device=device)
        self.mask[..., 0] = 0.0  # so that recording the graph attends to something
        self.position = torch.zeros(rows, 1, dtype=torch.long, device=device)
        self.token = torch.full((rows, 1), pad, device=device)
        self.unfinished = torch.zeros(rows, 1, dtype=torch.bool, device=device)
        self.completions = torch.full((rows, stopping.tokens), pad, device=device)
        self.count = torch.zeros(1, dtype=torch.long, device=device)
        """tokens per row so far"""
        self.inverse_temperature = torch.ones((), device=device)
        self.noise = torch.ones((), device=device)
        """1 to sample, 0 for the likeliest token"""
        self.step = _as_cuda_graph(self._step) if device.type == "cuda" else self._step

    def start(
        self, prompts: PromptCache, mask: Tensor, logits: Tensor, prompt_of: Tensor, n: int
    ) -> None:
        """Sample the first token of every row: row i continues prompt `prompt_of[i]`; only n rows are used.

        `mask` [P, W] is True on the tokens of prompts, and `logits` [P, V] predict the token after each prompt.
        """
        self.cache.fill(prompts, prompt_of)
        self.mask.fill_(-torch.inf)
        self.mask[:, 0, 0, : self.width] = additive_mask(mask, prompts.dtype)[prompt_of]
        self.position.copy_(mask.sum(-1, keepdim=True)[prompt_of])
        self.unfinished.fill_(True)
        self.unfinished[n:] = False
        self.completions.fill_(self.stopping.pad)
        self.count.zero_()
        self._sample(logits[prompt_of])

    def take_over(self, other: Decoder, rows: Tensor) -> None:
        """Continue these rows of a decoder of the same width; they must fit."""
        n = len(rows)
        for mine, theirs in zip(self.cache.layers, other.cache.layers, strict=True):
            for to, x in zip(mine, theirs, strict=True):
                to[:n] = x[rows]
        for name in ("mask", "position", "token", "unfinished", "completions"):
            getattr(self, name)[:n] = getattr(other, name)[rows]
        self.unfinished[n:] = False
        self.cache.next.copy_(other.cache.next)
        self.count.copy_(other.count)
        self.inverse_temperature.copy_(other.inverse_temperature)
        self.noise.copy_(other.noise)

    def set_temperature(self, temperature: float | None) -> None:
        """Sample at this temperature; None takes the likeliest token."""
        self.inverse_temperature.fill_(1.0 if temperature is None else 1.0 / temperature)
        self.noise.fill_(0.0 if temperature is None else 1.0)

    def _step(self) -> None:
        """Sample one more token for every row."""
        self.mask.index_fill_(3, self.cache.next, 0.0)
        logits = self.model(self.token, self.position, self.mask, self.cache)
        self.position += 1
        self.cache.next += 1
        self._sample(logits)

    def _sample(self, logits: Tensor) -> None:
        scores = logits.float().mul_(self.inverse_temperature)
        draw = by_gumbel_noise if logits.is_cuda else by_cumulative_sum
        chosen = draw(scores, self.noise)
        self.token.copy_(torch.where(self.unfinished, chosen, self.stopping.pad))
        self.completions.index_copy_(1, self.count, self.token)
        self.count += 1
        self.unfinished &= ~torch.isin(self.token, self.stopping.ends)


def by_gumbel_noise(scores: Tensor, noise: Tensor) -> Tensor:
    """[N, 1] drawn from softmax(scores): the largest score after adding Gumbel noise, which is fast on a GPU.

    `noise` is 1 to sample; 0 takes the largest score.
    """
    minus_gumbel = torch.empty_like(scores).exponential_().log_()
    return scores.sub(minus_gumbel.mul_(noise)).argmax(-1, keepdim=True)


def by_cumulative_sum(scores: Tensor, noise: Tensor) -> Tensor:
    """The same with one random number per row: the first token whose cumulative probability is above it."""
    if not noise:
        return scores.argmax(-1, keepdim=True)
    cumulative = scores.softmax(-1).cumsum(-1)
    found = torch.searchsorted(
        cumulative, torch.rand_like(cumulative[:, :1]) * cumulative[:, -1:], right=True
    )
    return found.clamp(max=scores.shape[-1] - 1)


def _as_cuda_graph(step: Callable[[], None]) -> Callable[[], None]:
    """The step, recorded as a CUDA graph; the random state stays as it was."""
    with torch.random.fork_rng([torch.cuda.current_device()]):
        side = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            step()  # libraries initialise themselves outside the recording
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            step()
    replay: Callable[[], None] = graph.replay
    return replay

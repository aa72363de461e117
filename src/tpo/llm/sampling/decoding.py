"""Decoding with everything in place: one cache, one mask, one step; on a GPU the step is one replayed graph.

No shape depends on the step, so it is recorded once as a CUDA graph and replayed; on a CPU the same step runs
as it is.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

from tpo.llm.packed.attention import ALIGNED, additive
from tpo.llm.sampling.fast_llama import Reader

Tensor = torch.Tensor


class Prefill:
    """A cache that keeps the keys and values of whole prompts, layer by layer."""

    def __init__(self) -> None:
        """Empty."""
        self.layers: list[tuple[Tensor, Tensor]] = []

    @property
    def dtype(self) -> torch.dtype:
        """The precision of keys and values."""
        return self.layers[0][0].dtype

    def put(self, layer: int, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """Keep [P, heads, W, width] and attend to them."""
        self.layers.append((key, value))
        return key, value


class Slots:
    """A cache of L slots per row [N, heads, L, width]; each step fills one slot, the same for all rows."""

    def __init__(self, like: Prefill, rows: int, length: int) -> None:
        """Empty, in the shapes of these prompts' keys and values."""
        self.layers = [
            [x.new_zeros(rows, x.shape[1], length, x.shape[3]) for x in pair]
            for pair in like.layers
        ]
        self.next = torch.zeros(1, dtype=torch.long, device=self.layers[0][0].device)

    def fill(self, prompts: Prefill, owner: Tensor) -> None:
        """Row i starts with the prompt `owner[i]`; the next token goes behind it."""
        for slots, found in zip(self.layers, prompts.layers, strict=True):
            for to, x in zip(slots, found, strict=True):
                to[:, :, : x.shape[2]] = x[owner]
        self.next.fill_(prompts.layers[0][0].shape[2])

    def put(self, layer: int, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """Put one token's [N, heads, 1, width] into the next slot and attend to all slots."""
        keys, values = self.layers[layer]
        keys.index_copy_(2, self.next, key)
        values.index_copy_(2, self.next, value)
        return keys, values


class Decoder:
    """N rows that grow by one sampled token per step, up to T tokens behind prompts of at most W."""

    def __init__(
        self,
        reader: Reader,
        like: Prefill,
        rows: int,
        width: int,
        tokens: int,
        ends: Tensor,
        pad: int,
    ) -> None:
        """Nothing is decoded before `start`; rows end with one of `ends`."""
        device = ends.device
        self.reader, self.ends, self.pad = reader, ends, pad
        self.rows, self.width = rows, width
        length = -(-(width + tokens) // ALIGNED) * ALIGNED
        self.slots = Slots(like, rows, length)
        self.mask = torch.full((rows, 1, 1, length), -torch.inf, dtype=like.dtype, device=device)
        self.mask[..., 0] = 0.0  # so that recording the graph attends to something
        self.position = torch.zeros(rows, 1, dtype=torch.long, device=device)
        self.token = torch.full((rows, 1), pad, device=device)
        self.alive = torch.zeros(rows, 1, dtype=torch.bool, device=device)
        self.out = torch.full((rows, tokens), pad, device=device)
        self.count = torch.zeros(1, dtype=torch.long, device=device)
        self.sharpness = torch.ones((), device=device)
        self.noise = torch.ones((), device=device)
        self.step = _recorded(self._step) if device.type == "cuda" else self._step

    def start(self, prompts: Prefill, mask: Tensor, logits: Tensor, owner: Tensor, n: int) -> None:
        """Row i continues the prompt `owner[i]`; only the first n rows count."""
        self.slots.fill(prompts, owner)
        self.mask.fill_(-torch.inf)
        self.mask[:, 0, 0, : self.width] = additive(mask, prompts.dtype)[owner]
        self.position.copy_(mask.sum(-1, keepdim=True)[owner])
        self.alive.fill_(True)
        self.alive[n:] = False
        self.out.fill_(self.pad)
        self.count.zero_()
        self._choose(logits[owner])

    def go_on(self, other: Decoder, rows: Tensor) -> None:
        """Take over these rows of a decoder of the same width, as many as fit."""
        n = len(rows)
        for mine, theirs in zip(self.slots.layers, other.slots.layers, strict=True):
            for to, x in zip(mine, theirs, strict=True):
                to[:n] = x[rows]
        for name in ("mask", "position", "token", "alive", "out"):
            getattr(self, name)[:n] = getattr(other, name)[rows]
        self.alive[n:] = False
        self.slots.next.copy_(other.slots.next)
        self.count.copy_(other.count)
        self.sharpness.copy_(other.sharpness)
        self.noise.copy_(other.noise)

    def temper(self, temperature: float | None) -> None:
        """Sample at this temperature; None takes the likeliest token."""
        self.sharpness.fill_(1.0 if temperature is None else 1.0 / temperature)
        self.noise.fill_(0.0 if temperature is None else 1.0)

    def _step(self) -> None:
        """One more token for every row."""
        self.mask.index_fill_(3, self.slots.next, 0.0)
        logits = self.reader(self.token, self.position, self.mask, self.slots)
        self.position += 1
        self.slots.next += 1
        self._choose(logits)

    def _choose(self, logits: Tensor) -> None:
        scores = logits.float().mul_(self.sharpness)
        draw = largest_with_noise if logits.is_cuda else where_the_sum_passes
        chosen = draw(scores, self.noise)
        self.token.copy_(torch.where(self.alive, chosen, self.pad))
        self.out.index_copy_(1, self.count, self.token)
        self.count += 1
        self.alive &= ~torch.isin(self.token, self.ends)


def largest_with_noise(scores: Tensor, noise: Tensor) -> Tensor:
    """[N, 1] drawn from softmax(scores) by Gumbel's noise, which a GPU makes fast; 0 noise: the largest."""
    minus_gumbel = torch.empty_like(scores).exponential_().log_()
    return scores.sub(minus_gumbel.mul_(noise)).argmax(-1, keepdim=True)


def where_the_sum_passes(scores: Tensor, noise: Tensor) -> Tensor:
    """The same by one random number a row: where the sum of the probabilities passes it."""
    if not noise:
        return scores.argmax(-1, keepdim=True)
    reached = scores.softmax(-1).cumsum(-1)
    passes = torch.searchsorted(
        reached, torch.rand_like(reached[:, :1]) * reached[:, -1:], right=True
    )
    return passes.clamp(max=scores.shape[-1] - 1)


def _recorded(step: Callable[[], None]) -> Callable[[], None]:
    """The step as a CUDA graph; the random state is left as it was."""
    with torch.random.fork_rng([torch.cuda.current_device()]):
        side = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            step()  # libraries set themselves up outside the recording
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            step()
    replay: Callable[[], None] = graph.replay
    return replay

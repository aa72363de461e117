"""Decoding with everything in place: one cache, one mask, one step; on a GPU the step is one replayed graph.

A transformer that decodes token by token spends its time on launching small kernels. Here no shape depends on
the step, so a step is recorded once as a CUDA graph and replayed; on a CPU the same step runs as it is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from transformers import AttentionInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward

Tensor = torch.Tensor
ATTENTION = "tpo_decoding"


def attention(
    module: Any, query: Tensor, key: Tensor, value: Tensor, mask: Tensor, **options: Any
) -> tuple[Tensor, None]:
    """Attention of one token to the filled slots [N, 1, 1, L]; heads that share keys read them once."""
    if query.shape[2] > 1:
        found: tuple[Tensor, None] = sdpa_attention_forward(
            module, query, key, value, mask, **options
        )
        return found
    n, heads, _, width = query.shape
    grouped = query.view(n, key.shape[1], -1, width)
    scores = (grouped @ key.mT).float() * options["scaling"]
    weights = scores.masked_fill(~mask, -torch.inf).softmax(-1).to(value.dtype)
    return (weights @ value).view(n, 1, heads, -1), None


AttentionInterface.register(ATTENTION, attention)


class Prefill:
    """A cache that keeps the keys and values of whole prompts, layer by layer."""

    def __init__(self) -> None:
        """Empty."""
        self.layers: list[tuple[Tensor, Tensor]] = []

    def update(self, key: Tensor, value: Tensor, *_: Any, **__: Any) -> tuple[Tensor, Tensor]:
        """Keep this layer's [P, heads, W, width] and attend to them."""
        self.layers.append((key, value))
        return key, value

    def get_seq_length(self, *_: Any) -> int:
        """Nothing lies before a prompt."""
        return 0


class Slots:
    """A cache of L slots per row [N, heads, L, width]; each step fills one slot, the same for all rows."""

    def __init__(self, like: Prefill, rows: int, length: int) -> None:
        """Empty, in the shapes of these prompts' keys and values."""
        self.layers = [
            tuple(x.new_zeros(rows, x.shape[1], length, x.shape[3]) for x in pair)
            for pair in like.layers
        ]
        self.next = torch.zeros(1, dtype=torch.long, device=self.layers[0][0].device)

    def fill(self, prompts: Prefill, owner: Tensor) -> None:
        """Row i starts with the prompt `owner[i]`; the next token goes behind it."""
        for slots, found in zip(self.layers, prompts.layers, strict=True):
            for to, x in zip(slots, found, strict=True):
                to[:, :, : x.shape[2]] = x[owner]
        self.next.fill_(prompts.layers[0][0].shape[2])

    def update(
        self, key: Tensor, value: Tensor, layer: int, *_: Any, **__: Any
    ) -> tuple[Tensor, Tensor]:
        """Put one token's [N, heads, 1, width] into the next slot and attend to all slots."""
        keys, values = self.layers[layer]
        keys.index_copy_(2, self.next, key)
        values.index_copy_(2, self.next, value)
        return keys, values

    def get_seq_length(self, *_: Any) -> int:
        """Never asked while positions and mask are given."""
        return int(self.next)


class Decoder:
    """N rows that grow by one sampled token per step, up to T tokens behind prompts of at most W."""

    def __init__(
        self, model: Any, like: Prefill, rows: int, width: int, tokens: int, ends: Tensor, pad: int
    ) -> None:
        """Nothing is decoded before `start`; rows end with one of `ends`."""
        device = ends.device
        self.model, self.ends, self.pad = model, ends, pad
        self.rows, self.width = rows, width
        self.slots = Slots(like, rows, width + tokens)
        self.mask = torch.zeros(rows, 1, 1, width + tokens, dtype=torch.bool, device=device)
        self.mask[..., 0] = True  # so that recording the graph attends to something
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
        self.mask.fill_(False)
        self.mask[:, 0, 0, : self.width] = mask[owner]
        self.position.copy_(mask.sum(-1, keepdim=True)[owner])
        self.alive.fill_(True)
        self.alive[n:] = False
        self.out.fill_(self.pad)
        self.count.zero_()
        self._choose(logits[owner])

    def temper(self, temperature: float | None) -> None:
        """Sample at this temperature; None takes the likeliest token."""
        self.sharpness.fill_(1.0 if temperature is None else 1.0 / temperature)
        self.noise.fill_(0.0 if temperature is None else 1.0)

    def _step(self) -> None:
        """One more token for every row."""
        self.mask.index_fill_(3, self.slots.next, True)
        logits = self.model(
            input_ids=self.token,
            attention_mask=self.mask,
            position_ids=self.position,
            past_key_values=self.slots,
            use_cache=True,
        ).logits[:, -1]
        self.position += 1
        self.slots.next += 1
        self._choose(logits)

    def _choose(self, logits: Tensor) -> None:
        """Gumbel's way to sample: the largest of logits/temperature + noise."""
        gumbel = -torch.empty_like(logits, dtype=torch.float32).exponential_().log()
        chosen = (logits.float() * self.sharpness + gumbel * self.noise).argmax(-1, keepdim=True)
        self.token.copy_(torch.where(self.alive, chosen, self.pad))
        self.out.index_copy_(1, self.count, self.token)
        self.count += 1
        self.alive &= ~torch.isin(self.token, self.ends)


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

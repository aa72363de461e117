"""Sampler: completions of many prompts at once, from the weights that are being trained.

Each prompt is read once, however many completions it gets. The weights are held in the precision that the model
computes in, so that decoding reads half the bytes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch

from tpo.llm.sampling.decoding import Decoder, Prefill
from tpo.llm.sampling.fast_llama import Reader, readable

Tensor = torch.Tensor
LOOK = 8
"""So many steps between two looks at which rows have ended; a look waits for the device."""
FEWEST = 16
"""Rows are halved down to this many, when half of them have ended."""
MULTIPLE = 64
"""Prompts are padded to a multiple of this on a GPU, so that a graph serves many batches."""
MORE_THAN_A_SUM = (
    "alora_invocation_tokens", "arrow_config", "kasa_config", "layer_replication", "lora_bias",
    "modules_to_save", "monteclora_config", "target_parameters", "trainable_token_indices", "use_bdlora",
    "use_dora", "use_qalora", "velora_config",
)  # fmt: skip
"""Options of peft's LoRA under which a model is no longer W + s·BA, layer by layer."""


def fits(model: Any) -> bool:
    """Whether the sampler can decode this model; for any other there is transformers' `generate`."""
    plain = _plain(model)
    return (
        readable(plain)
        and all(weight.is_floating_point() for weight in plain.parameters())
        and all(map(_is_plain_lora, getattr(model, "peft_config", {}).values()))
        and not any(hasattr(end, "base_layer") for end in _ends(plain))
    )


def _is_plain_lora(adapter: Any) -> bool:
    """Whether an adapter is a sum to weights, W + s·BA, and nothing else is trained."""
    return (
        adapter.peft_type == "LORA"
        and adapter.bias == "none"
        and not any(getattr(adapter, name, None) for name in MORE_THAN_A_SUM)
    )


def _ends(model: Any) -> tuple[Any, Any]:
    """Embedding and head, which may share a weight; the reader has no place for adapters there."""
    return model.get_input_embeddings(), model.get_output_embeddings()


class Sampler:
    """Samples completions token by token, with the weights that its model has at each call."""

    def __init__(
        self,
        model: Any,
        *,
        ends: Sequence[int],
        pad: int,
        tokens: int,
        rows: int,
        dtype: torch.dtype | None = None,
    ) -> None:
        """Up to `tokens` tokens or one of `ends`; at most `rows` completions at a time.

        `dtype` is what decoding computes in, the model's own by default.
        """
        self.model, self.pad, self.tokens, self.rows = model, pad, tokens, rows
        weight = next(model.parameters())
        self.ends = torch.tensor(sorted(set(ends)), device=weight.device)
        self.sampled = 0
        plain = _plain(model)
        self._reader = Reader(plain, weights(plain), dtype or weight.dtype)
        self._decoders: dict[int, Decoder] = {}
        """by their rows; all of one width"""

    @torch.no_grad()
    def __call__(
        self, prompts: Sequence[Sequence[int]], temperature: float | None = 1.0
    ) -> list[list[int]]:
        """A completion for each prompt; one that comes K times is read once. None: the likeliest tokens."""
        blocks = range(0, len(prompts), self.rows)
        with torch.autocast(self.ends.device.type, enabled=False):  # the reader has a precision
            self._reader.read(weights(_plain(self.model)))
            found = [
                row for i in blocks for row in self._block(prompts[i : i + self.rows], temperature)
            ]
        self.sampled += sum(map(len, found))
        return found

    def _block(
        self, prompts: Sequence[Sequence[int]], temperature: float | None
    ) -> list[list[int]]:
        place = {tuple(p): i for i, p in enumerate(dict.fromkeys(map(tuple, prompts)))}
        owners = [place[tuple(p)] for p in prompts]
        ids, mask = self._padded(list(place))
        cache, logits = self._prefill(ids, mask)
        rows = self.rows if self.ends.is_cuda else len(prompts)
        decoder = self._decoder(rows, ids.shape[1], cache)
        owners += [0] * (decoder.rows - len(owners))
        decoder.temper(temperature)
        owner = torch.tensor(owners, device=ids.device)
        decoder.start(cache, mask, logits, owner, len(prompts))
        found = self._decoded(decoder, cache)[: len(prompts)]
        ends = self.ends.tolist()
        return [up_to_end(row, ends) for row in found.tolist()]

    def _decoded(self, decoder: Decoder, cache: Prefill) -> Tensor:
        """[rows, T] once all rows have ended; those that have not go on in smaller decoders."""
        whole = torch.empty_like(decoder.out)
        places = torch.arange(decoder.rows, device=self.ends.device)
        for t in range(1, self.tokens):
            if t % LOOK == 0:
                alive = decoder.alive[:, 0].nonzero()[:, 0]
                if not len(alive):
                    break
                half = decoder.rows // 2
                if half >= FEWEST and len(alive) <= half:
                    whole[places] = decoder.out[: len(places)]
                    smaller = self._decoder(half, decoder.width, cache)
                    smaller.go_on(decoder, alive)
                    decoder, places = smaller, places[alive]
            decoder.step()
        whole[places] = decoder.out[: len(places)]
        return whole

    def _padded(self, prompts: list[tuple[int, ...]]) -> tuple[Tensor, Tensor]:
        """Ids and mask [P, W], padded on the left."""
        width = max(map(len, prompts))
        if self.ends.is_cuda:
            width = -(-width // MULTIPLE) * MULTIPLE
            width = max([width, *(decoder.width for decoder in self._decoders.values())])
        ids = torch.tensor([[self.pad] * (width - len(p)) + list(p) for p in prompts])
        mask = torch.tensor([[False] * (width - len(p)) + [True] * len(p) for p in prompts])
        return ids.to(self.ends.device), mask.to(self.ends.device)

    def _prefill(self, ids: Tensor, mask: Tensor) -> tuple[Prefill, Tensor]:
        """Keys and values of every prompt, and the logits [P, V] behind it."""
        cache, width = Prefill(), ids.shape[1]
        before = torch.ones(width, width, dtype=torch.bool, device=ids.device).tril()
        itself = torch.eye(width, dtype=torch.bool, device=ids.device)  # padding looks at itself
        looks = ((before & mask[:, None]) | itself)[:, None]
        positions = (mask.cumsum(-1) - 1).clamp(min=0)
        return cache, self._reader(ids, positions, looks, cache)

    def _decoder(self, rows: int, width: int, like: Prefill) -> Decoder:
        """A decoder of that size; on a GPU it is kept, with its graph, while prompts fit into it."""
        if not self.ends.is_cuda or any(one.width != width for one in self._decoders.values()):
            self._decoders.clear()  # their memory first
        if rows not in self._decoders:
            self._decoders[rows] = Decoder(
                self._reader, like, rows, width, self.tokens, self.ends, self.pad
            )
        return self._decoders[rows]


def up_to_end(row: list[int], ends: Sequence[int]) -> list[int]:
    """The tokens up to and with the first end; all of them without one."""
    last = next((i for i, token in enumerate(row) if token in ends), len(row))
    return row[: last + 1]


def _plain(model: Any) -> Any:
    """The transformers model, without what peft put around it."""
    return model.get_base_model() if hasattr(model, "get_base_model") else model


def weights(model: Any) -> Iterator[tuple[str, Tensor]]:
    """The weights by name; LoRA's as MODULE.lora_A [r, in] and, with its scale, MODULE.lora_B [out, r]."""
    for name, weight in model.named_parameters():
        if not any(part.startswith("lora_") for part in name.split(".")):
            yield name.replace(".base_layer.", "."), weight
    for name, layer in model.named_modules():
        if hasattr(layer, "base_layer"):
            own = [adapter for adapter in layer.active_adapters if adapter in layer.lora_A]
            if own:
                scaled = [layer.scaling[a] * layer.lora_B[a].weight for a in own]
                yield f"{name}.lora_A", torch.cat([layer.lora_A[a].weight for a in own])
                yield f"{name}.lora_B", torch.cat(scaled, 1)

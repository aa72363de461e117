"""Sampler: completions of many prompts at once, from the weights that are being trained.

A prompt is computed once, for all of its completions. The sampler keeps a copy of the weights in the precision
that the model computes in, so that decoding reads half the bytes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch

from tpo.llm.sampling.decoding import Decoder, PromptCache, Stopping
from tpo.llm.sampling.fast_llama import FastLlama, is_supported

Tensor = torch.Tensor
CHECK_EVERY = 8
"""Steps between two checks which rows have ended; a check waits for the device."""
MIN_ROWS = 16
"""When half of the rows have ended, the rest moves to a decoder of half the rows, down to this many."""
PROMPT_MULTIPLE = 64
"""On a GPU prompts are padded to a multiple of this, so that one CUDA graph serves many batches."""
UNSUPPORTED_LORA = (
    "alora_invocation_tokens", "arrow_config", "kasa_config", "layer_replication", "lora_bias",
    "modules_to_save", "monteclora_config", "target_parameters", "trainable_token_indices", "use_bdlora",
    "use_dora", "use_qalora", "velora_config",
)  # fmt: skip
"""Options of peft's LoRA with which a model is no longer W + s·BA in each layer."""


def fits(model: Any) -> bool:
    """Whether the sampler can decode this model; for any other there is transformers' `generate`."""
    base = _base_model(model)
    return (
        is_supported(base)
        and all(weight.is_floating_point() for weight in base.parameters())
        and all(map(_is_plain_lora, getattr(model, "peft_config", {}).values()))
        and not any(hasattr(module, "base_layer") for module in _embedding_and_head(base))
    )


def _is_plain_lora(adapter: Any) -> bool:
    """Whether an adapter only adds to weights, W + s·BA, and trains nothing else."""
    return (
        adapter.peft_type == "LORA"
        and adapter.bias == "none"
        and not any(getattr(adapter, name, None) for name in UNSUPPORTED_LORA)
    )


def _embedding_and_head(model: Any) -> tuple[Any, Any]:
    """Two modules that may share a weight; `FastLlama` supports no adapters of them."""
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
        """A completion has up to `tokens` tokens or stops with one of `ends`; at most `rows` at a time.

        `dtype` is what decoding computes in, the model's own by default.
        """
        self.model, self.rows = model, rows
        weight = next(model.parameters())
        self._device = weight.device
        self.ends = sorted(set(ends))
        self._stopping = Stopping(tokens, torch.tensor(self.ends, device=weight.device), pad)
        self.sampled = 0
        """tokens so far"""
        base = _base_model(model)
        self._fast_model = FastLlama(base, weights(base), dtype or weight.dtype)
        self._decoders: dict[int, Decoder] = {}
        """by their number of rows; all have one width"""

    @torch.no_grad()
    def __call__(
        self, prompts: Sequence[Sequence[int]], temperature: float | None = 1.0
    ) -> list[list[int]]:
        """A completion for each prompt, the likeliest tokens if `temperature` is None.

        A prompt that is given K times is computed once.
        """
        blocks = range(0, len(prompts), self.rows)
        with torch.autocast(self._device.type, enabled=False):  # the fast model has its own dtype
            self._fast_model.load(weights(_base_model(self.model)))
            found = [
                row for i in blocks for row in self._block(prompts[i : i + self.rows], temperature)
            ]
        self.sampled += sum(map(len, found))
        return found

    def _block(
        self, prompts: Sequence[Sequence[int]], temperature: float | None
    ) -> list[list[int]]:
        """Completions of at most `rows` prompts."""
        index = {tuple(p): i for i, p in enumerate(dict.fromkeys(map(tuple, prompts)))}
        prompt_of = [index[tuple(p)] for p in prompts]
        ids, mask = self._padded(list(index))
        cache, logits = self._prefill(ids, mask)
        rows = self.rows if self._device.type == "cuda" else len(prompts)
        decoder = self._decoder(rows, ids.shape[1], cache)
        prompt_of += [0] * (decoder.rows - len(prompt_of))
        decoder.set_temperature(temperature)
        decoder.start(cache, mask, logits, torch.tensor(prompt_of, device=ids.device), len(prompts))
        found = self._decoded(decoder, cache)[: len(prompts)]
        return [up_to_end(row, self.ends) for row in found.tolist()]

    def _decoded(self, decoder: Decoder, cache: PromptCache) -> Tensor:
        """[rows, T] when all rows have ended; a decoder of half the rows takes over once half have ended."""
        whole = torch.empty_like(decoder.completions)
        places = torch.arange(decoder.rows, device=self._device)
        for t in range(1, self._stopping.tokens):
            if t % CHECK_EVERY == 0:
                unfinished = decoder.unfinished[:, 0].nonzero()[:, 0]
                if not len(unfinished):
                    break
                half = decoder.rows // 2
                if half >= MIN_ROWS and len(unfinished) <= half:
                    whole[places] = decoder.completions[: len(places)]
                    smaller = self._decoder(half, decoder.width, cache)
                    smaller.take_over(decoder, unfinished)
                    decoder, places = smaller, places[unfinished]
            decoder.step()
        whole[places] = decoder.completions[: len(places)]
        return whole

    def _padded(self, prompts: list[tuple[int, ...]]) -> tuple[Tensor, Tensor]:
        """Ids and mask [P, W], padded on the left."""
        width, pad = max(map(len, prompts)), self._stopping.pad
        if self._device.type == "cuda":
            width = -(-width // PROMPT_MULTIPLE) * PROMPT_MULTIPLE
            width = max([width, *(decoder.width for decoder in self._decoders.values())])
        ids = torch.tensor([[pad] * (width - len(p)) + list(p) for p in prompts])
        mask = torch.tensor([[False] * (width - len(p)) + [True] * len(p) for p in prompts])
        return ids.to(self._device), mask.to(self._device)

    def _prefill(self, ids: Tensor, mask: Tensor) -> tuple[PromptCache, Tensor]:
        """Keys and values of every prompt, and the logits [P, V] after it."""
        cache, width = PromptCache(), ids.shape[1]
        causal = torch.ones(width, width, dtype=torch.bool, device=ids.device).tril()
        itself = torch.eye(width, dtype=torch.bool, device=ids.device)  # padding attends to itself
        allowed = ((causal & mask[:, None]) | itself)[:, None]
        positions = (mask.cumsum(-1) - 1).clamp(min=0)
        return cache, self._fast_model(ids, positions, allowed, cache)

    def _decoder(self, rows: int, width: int, prompts: PromptCache) -> Decoder:
        """A decoder of that size; on a GPU it is kept with its CUDA graph as long as prompts fit into it."""
        cuda = self._device.type == "cuda"
        if not cuda or any(one.width != width for one in self._decoders.values()):
            self._decoders.clear()  # frees their memory before more is allocated
        if rows not in self._decoders:
            self._decoders[rows] = Decoder(self._fast_model, prompts, rows, width, self._stopping)
        return self._decoders[rows]


def up_to_end(row: list[int], ends: Sequence[int]) -> list[int]:
    """The tokens up to and including the first of `ends`; all of them if there is none."""
    last = next((i for i, token in enumerate(row) if token in ends), len(row))
    return row[: last + 1]


def _base_model(model: Any) -> Any:
    """The transformers model, without the wrapper of peft."""
    return model.get_base_model() if hasattr(model, "get_base_model") else model


def weights(model: Any) -> Iterator[tuple[str, Tensor]]:
    """The weights by name; LoRA's as MODULE.lora_A [r, in] and, times its scale, MODULE.lora_B [out, r]."""
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

"""A Llama-like transformer for inference only: one precision, few kernels per layer.

    x = x + O attention(rope(Q norm(x)), rope(K norm(x)), V norm(x))
    x = x + D (silu(G norm(x)) · U norm(x))

Decoding one token for a few hundred rows takes as long as launching its kernels, so there are as few as plain
torch allows: Q, K and V are one product, G and U another, heads that share keys are queries of one attention.
LoRA is not merged, W x + B A x, and is rounded as in training: what it adds to W is often less than W's last
digit.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, Protocol

import torch
from torch.nn import functional

Tensor = torch.Tensor
MODEL_TYPES = ("llama", "mistral", "qwen2", "qwen3")
"""Model types that are this transformer; qwen2 adds biases to Q, K and V, qwen3 norms to Q and K."""
FIXED_ROPE = ("default", "linear", "llama3", "yarn")
"""Kinds of rotary embedding that do not depend on the length of a sequence."""


def is_supported(model: Any) -> bool:
    """Whether a transformers model is this transformer."""
    config = model.config
    if config.model_type not in MODEL_TYPES:
        return False
    layers = getattr(config, "layer_types", None)
    window = None if layers else getattr(config, "sliding_window", None)
    biases = [name for name, _ in model.named_parameters() if name.endswith(".bias")]
    return (
        set(layers or ["full_attention"]) == {"full_attention"}
        and not window
        and config.hidden_act == "silu"
        and model.model.rotary_emb.rope_type in FIXED_ROPE
        and not any("o_proj" in name or "mlp" in name for name in biases)
    )


class KeyValueCache(Protocol):
    """Keeps keys and values."""

    def update(self, layer: int, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """Keep [n, heads, q, width] of new tokens; return those of all tokens to attend to."""


class Linear(NamedTuple):
    """x Wᵀ + b, plus x Aᵀ Bᵀ if LoRA adapts the module."""

    W: Tensor
    b: Tensor | None = None
    A: Tensor | None = None
    """[r, in]"""
    B: Tensor | None = None
    """[out, r] times LoRA's scale"""

    def __call__(self, x: Tensor) -> Tensor:
        """[..., in] to [..., out]."""
        y = functional.linear(x, self.W, self.b)
        if self.A is None or self.B is None:
            return y
        inner = functional.linear(x, self.A)
        y.view(-1, y.shape[-1]).addmm_(inner.view(-1, inner.shape[-1]), self.B.T)
        return y


class Layer(NamedTuple):
    """The weights of one layer; `q_norm` and `k_norm` are None where the model has no such norms."""

    norm: Tensor
    qkv: Linear
    q_norm: Tensor | None
    k_norm: Tensor | None
    out: Linear
    mlp_norm: Tensor
    gate_up: Linear
    down: Linear


class WeightBuffers:
    """Zeros in the shapes of weights, where weights that are used together are one tensor."""

    def __init__(
        self, shapes: Mapping[str, torch.Size], dtype: torch.dtype, device: torch.device
    ) -> None:
        """`shapes` are those of the model's weights by name."""
        self.shapes, self.dtype, self.device = shapes, dtype, device
        self.views: dict[str, Tensor] = {}
        """the part of a buffer that holds each weight"""

    def stacked(self, *names: str) -> Any:
        """A tensor for these weights, one below the other; None if the model has none of them."""
        found = [name for name in names if name in self.shapes]
        if not found:
            return None
        rows = [self.shapes[name][0] for name in found]
        whole = self._zeros(sum(rows), *self.shapes[found[0]][1:])
        self.views |= dict(zip(found, torch.split(whole, rows), strict=True))
        return whole

    def linear(self, *modules: str) -> Linear:
        """One product for these linear modules, one below the other, with LoRA for those that have it."""
        W, b, A = (
            self.stacked(*(f"{module}.{kind}" for module in modules))
            for kind in ("weight", "bias", "lora_A")
        )
        if A is None:
            return Linear(W, b)
        B, row, column = self._zeros(len(W), len(A)), 0, 0
        for module in modules:
            end = row + self.shapes[f"{module}.weight"][0]
            if f"{module}.lora_B" in self.shapes:
                rank = self.shapes[f"{module}.lora_B"][1]
                self.views[f"{module}.lora_B"] = B[row:end, column : column + rank]
                column += rank
            row = end
        return Linear(W, b, A, B)

    def _zeros(self, *shape: int) -> Tensor:
        return torch.zeros(shape, dtype=self.dtype, device=self.device)


class FastLlama:
    """The transformer, for models of MODEL_TYPES; `load` copies their weights into it."""

    def __init__(
        self, model: Any, weights: Iterable[tuple[str, Tensor]], dtype: torch.dtype
    ) -> None:
        """Zeros in the shapes of these weights, for a model of transformers."""
        config = model.config
        self.heads, self.kv_heads = config.num_attention_heads, config.num_key_value_heads
        self.head_dim = getattr(config, "head_dim", None) or config.hidden_size // self.heads
        self.eps, self.rope = config.rms_norm_eps, model.model.rotary_emb
        shapes = {name: weight.shape for name, weight in weights}
        self._buffers = WeightBuffers(shapes, dtype, next(model.parameters()).device)
        self.embedding = self._buffers.stacked("model.embed_tokens.weight")
        self.layers = [self._layer(f"model.layers.{i}.") for i in range(config.num_hidden_layers)]
        self.norm = self._buffers.stacked("model.norm.weight")
        head = self._buffers.stacked("lm_head.weight")
        self.head = self.embedding if head is None else head

    def _layer(self, prefix: str) -> Layer:
        stacked, linear = self._buffers.stacked, self._buffers.linear
        return Layer(
            norm=stacked(f"{prefix}input_layernorm.weight"),
            qkv=linear(*(f"{prefix}self_attn.{x}_proj" for x in "qkv")),
            q_norm=stacked(f"{prefix}self_attn.q_norm.weight"),
            k_norm=stacked(f"{prefix}self_attn.k_norm.weight"),
            out=linear(f"{prefix}self_attn.o_proj"),
            mlp_norm=stacked(f"{prefix}post_attention_layernorm.weight"),
            gate_up=linear(f"{prefix}mlp.gate_proj", f"{prefix}mlp.up_proj"),
            down=linear(f"{prefix}mlp.down_proj"),
        )

    def load(self, weights: Iterable[tuple[str, Tensor]]) -> None:
        """Copy these weights."""
        for name, weight in weights:
            self._buffers.views[name].copy_(weight)

    def __call__(
        self, ids: Tensor, positions: Tensor, mask: Tensor, cache: KeyValueCache
    ) -> Tensor:
        """Logits [n, V] after the last of the tokens [n, q].

        `mask` [n, 1, q, L] says what each token attends to, as torch's attention takes it.
        """
        x = self.embedding[ids]
        cos, sin = self.rope(x, positions)
        half = self.head_dim // 2
        signed_sin = torch.cat([-sin[..., :half], sin[..., half:]], -1)
        rotation = cos, signed_sin
        for i, layer in enumerate(self.layers):
            x = x + self._attention(i, layer, self._normed(x, layer.norm), rotation, mask, cache)
            gate, up = layer.gate_up(self._normed(x, layer.mlp_norm)).chunk(2, -1)
            x = x + layer.down(functional.silu(gate) * up)
        return functional.linear(self._normed(x[:, -1], self.norm), self.head)

    def _normed(self, x: Tensor, weight: Tensor) -> Tensor:
        return functional.rms_norm(x, weight.shape, weight, self.eps)

    def _attention(
        self,
        i: int,
        layer: Layer,
        x: Tensor,
        rotation: tuple[Tensor, Tensor],
        mask: Tensor,
        cache: KeyValueCache,
    ) -> Tensor:
        n, q, _ = x.shape
        qkv = layer.qkv(x).view(n, q, -1, self.head_dim)
        qk, value = qkv[:, :, : -self.kv_heads], qkv[:, :, -self.kv_heads :]
        if layer.q_norm is not None and layer.k_norm is not None:
            of_q = self._normed(qk[:, :, : self.heads], layer.q_norm)
            of_k = self._normed(qk[:, :, self.heads :], layer.k_norm)
            qk = torch.cat([of_q, of_k], 2)
        qk = self._rotated(qk, *rotation).transpose(1, 2)
        query, key = qk[:, : self.heads], qk[:, self.heads :]
        key, value = cache.update(i, key, value.transpose(1, 2))
        share = self.heads // self.kv_heads
        queries = query.reshape(n, self.kv_heads, share * q, self.head_dim)
        mask = mask if q == 1 else mask.repeat(1, 1, share, 1)
        found = functional.scaled_dot_product_attention(queries, key, value, attn_mask=mask)
        found = found.reshape(n, self.heads, q, self.head_dim).transpose(1, 2)
        return layer.out(found.reshape(n, q, -1))

    def _rotated(self, x: Tensor, cos: Tensor, signed_sin: Tensor) -> Tensor:
        """Rotary embedding of [n, q, heads, head_dim]; `signed_sin` is the sine, its first half negated."""
        swapped = x.roll(self.head_dim // 2, -1)
        return torch.addcmul(x * cos[:, :, None], swapped, signed_sin[:, :, None])

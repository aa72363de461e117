"""A Llama-like transformer that reads and never trains: one precision, few kernels per layer.

    x = x + O attention(rope(Q norm(x)), rope(K norm(x)), V norm(x))
    x = x + D (silu(G norm(x)) · U norm(x))

Decoding one token for a few hundred rows takes as long as launching its kernels, so there are as few as plain
torch allows: Q, K and V are one product, G and U another, heads that share keys are queries of one attention.
LoRA stays apart, W x + B A x, rounded as in training: what it adds to W is often less than W's last digit.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple, Protocol

import torch
from torch.nn import functional

Tensor = torch.Tensor
KNOWN = ("llama", "mistral", "qwen2", "qwen3")
"""Model types that are this transformer; qwen2 adds biases to Q, K and V, qwen3 norms to Q and K."""
FIXED_ROPE = ("default", "linear", "llama3", "yarn")
"""Kinds of rotary embedding that do not depend on how long a sequence is."""


def readable(model: Any) -> bool:
    """Whether a transformers model is this transformer."""
    config = model.config
    if config.model_type not in KNOWN:
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


class Cache(Protocol):
    """Where keys and values are kept."""

    def put(self, layer: int, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """Keep [n, heads, q, width] of new tokens; return those of all tokens to attend to."""


class Linear(NamedTuple):
    """x Wᵀ + b, and x Aᵀ Bᵀ more where LoRA adapts it."""

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
    """The weights of one layer; norms of Q and K where the model has them."""

    norm: Tensor
    qkv: Linear
    q_norm: Tensor | None
    k_norm: Tensor | None
    out: Linear
    mlp_norm: Tensor
    gate_up: Linear
    down: Linear


class Reader:
    """The transformer, in the shape of a model; its weights are those that `read` was given last."""

    def __init__(
        self, model: Any, weights: Iterable[tuple[str, Tensor]], dtype: torch.dtype
    ) -> None:
        """Zeros in the shapes of these weights."""
        config = model.config
        self.heads, self.groups = config.num_attention_heads, config.num_key_value_heads
        self.width = getattr(config, "head_dim", None) or config.hidden_size // self.heads
        self.eps, self.rope = config.rms_norm_eps, model.model.rotary_emb
        shapes = {name: weight.shape for name, weight in weights}
        device = next(model.parameters()).device
        self._place: dict[str, Tensor] = {}

        def zeros(*shape: int) -> Tensor:
            return torch.zeros(shape, dtype=dtype, device=device)

        def joined(*names: str) -> Any:
            """A tensor for these weights, one below the other; None where the model has none of them."""
            found = [name for name in names if name in shapes]
            if not found:
                return None
            rows = [shapes[name][0] for name in found]
            whole = zeros(sum(rows), *shapes[found[0]][1:])
            self._place |= dict(zip(found, torch.split(whole, rows), strict=True))
            return whole

        def linear(*names: str) -> Linear:
            """One product for these modules, one below the other, with LoRA for those that have it."""
            W, b, A = (joined(*(f"{x}.{y}" for x in names)) for y in ("weight", "bias", "lora_A"))
            if A is None:
                return Linear(W, b)
            B, row, column = zeros(len(W), len(A)), 0, 0
            for name in names:
                end = row + shapes[f"{name}.weight"][0]
                if f"{name}.lora_B" in shapes:
                    rank = shapes[f"{name}.lora_B"][1]
                    self._place[f"{name}.lora_B"] = B[row:end, column : column + rank]
                    column += rank
                row = end
            return Linear(W, b, A, B)

        self.embedding = joined("model.embed_tokens.weight")
        self.layers = []
        for i in range(config.num_hidden_layers):
            at = f"model.layers.{i}"
            self.layers.append(
                Layer(
                    norm=joined(f"{at}.input_layernorm.weight"),
                    qkv=linear(*(f"{at}.self_attn.{x}_proj" for x in "qkv")),
                    q_norm=joined(f"{at}.self_attn.q_norm.weight"),
                    k_norm=joined(f"{at}.self_attn.k_norm.weight"),
                    out=linear(f"{at}.self_attn.o_proj"),
                    mlp_norm=joined(f"{at}.post_attention_layernorm.weight"),
                    gate_up=linear(f"{at}.mlp.gate_proj", f"{at}.mlp.up_proj"),
                    down=linear(f"{at}.mlp.down_proj"),
                )
            )
        self.norm = joined("model.norm.weight")
        head = joined("lm_head.weight")
        self.head = self.embedding if head is None else head

    def read(self, weights: Iterable[tuple[str, Tensor]]) -> None:
        """Take these weights."""
        for name, weight in weights:
            self._place[name].copy_(weight)

    def __call__(self, ids: Tensor, positions: Tensor, mask: Tensor, cache: Cache) -> Tensor:
        """Logits [n, V] behind the last of the tokens [n, q]; `mask` [n, 1, q, L] as torch attends with it."""
        x = self.embedding[ids]
        cos, sin = self.rope(x, positions)
        half = self.width // 2
        turn = torch.cat([-sin[..., :half], sin[..., half:]], -1)
        for i, layer in enumerate(self.layers):
            x = x + self._attended(i, layer, self._normed(x, layer.norm), (cos, turn), mask, cache)
            gate, up = layer.gate_up(self._normed(x, layer.mlp_norm)).chunk(2, -1)
            x = x + layer.down(functional.silu(gate) * up)
        return functional.linear(self._normed(x[:, -1], self.norm), self.head)

    def _normed(self, x: Tensor, weight: Tensor) -> Tensor:
        return functional.rms_norm(x, weight.shape, weight, self.eps)

    def _attended(
        self,
        i: int,
        layer: Layer,
        x: Tensor,
        turns: tuple[Tensor, Tensor],
        mask: Tensor,
        cache: Cache,
    ) -> Tensor:
        n, q, _ = x.shape
        qkv = layer.qkv(x).view(n, q, -1, self.width)
        turned, value = qkv[:, :, : -self.groups], qkv[:, :, -self.groups :]
        if layer.q_norm is not None and layer.k_norm is not None:
            of_q = self._normed(turned[:, :, : self.heads], layer.q_norm)
            of_k = self._normed(turned[:, :, self.heads :], layer.k_norm)
            turned = torch.cat([of_q, of_k], 2)
        turned = self._turned(turned, *turns).transpose(1, 2)
        query, key = turned[:, : self.heads], turned[:, self.heads :]
        key, value = cache.put(i, key, value.transpose(1, 2))
        share = self.heads // self.groups
        queries = query.reshape(n, self.groups, share * q, self.width)
        seen = mask if q == 1 else mask.repeat(1, 1, share, 1)
        found = functional.scaled_dot_product_attention(queries, key, value, attn_mask=seen)
        found = found.reshape(n, self.heads, q, self.width).transpose(1, 2)
        return layer.out(found.reshape(n, q, -1))

    def _turned(self, x: Tensor, cos: Tensor, turn: Tensor) -> Tensor:
        """Rotary embedding of [n, q, heads, width]; `turn` is the sine, its first half negative."""
        swapped = x.roll(self.width // 2, -1)
        return torch.addcmul(x * cos[:, :, None], swapped, turn[:, :, None])

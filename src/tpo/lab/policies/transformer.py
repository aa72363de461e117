"""A small causal transformer over tokens, with a key-value cache and a shared prompt.

Pre-norm decoder: LayerNorm, attention, residual, LayerNorm, GELU MLP x4, residual; final LayerNorm,
linear head; learned positions; no dropout; float32. Initialised as the paper's artifact is (flax
defaults: truncated LeCun normal weights, zero biases, embedding N(0, 1/d), positions N(0, 0.02^2)).

To save time, a prompt is run once for all its continuations, in sampling and in the update. In the last layer
only the final token of a prompt is computed: no other predicts an action.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import NamedTuple

import jax
import jax.numpy as jnp

from tpo.lab.policies.attention import attend, attend_step, split
from tpo.lab.policies.base import Params, Paths
from tpo.lab.policies.layers import layer_norm, lecun_normal, linear, rows


class Cache(NamedTuple):
    """Keys and values of one layer so far: the prompt's once, each stream's own."""

    prompt: jax.Array
    """[2, B, heads, H, d_head] of the prompt, shared by its streams."""
    own: jax.Array
    """[2, B, S, heads, T-1, d_head] of what each stream has generated; zeros beyond."""


@dataclass(frozen=True)
class Transformer:
    """pi(a_t | prompt, a_<t) over `vocab` tokens for `prompt` given and `length` generated tokens."""

    vocab: int
    prompt: int
    length: int
    width: int = 64
    layers: int = 2
    heads: int = 2

    matrices = frozenset({"embed", "position", "qkv_bias", "up", "down", "head"})
    """Parameters that Muon orthogonalises, over their last two axes.

    As in the artifact, whose attention weights are 3-D tensors and so went to AdamW, while the
    [heads, d_head] biases of query, key and value went to Muon.
    """

    def __post_init__(self) -> None:
        if self.width % self.heads:
            raise ValueError(
                f"width = {self.width} does not split into heads = {self.heads} equal parts; "
                "choose a multiple"
            )

    @property
    def outputs(self) -> int:
        """Logits after each token."""
        return self.vocab

    def critic(self, outputs: int = 1) -> TransformerCritic:
        """The same network with a head of values."""
        own = {f.name: getattr(self, f.name) for f in fields(Transformer)}
        return TransformerCritic(**own, outputs=outputs)

    def init(self, key: jax.Array) -> Params:
        """Fresh parameters; arrays of one kind are stacked over layers, [L, ...]."""
        d, n, h = self.width, self.layers, self.heads
        keys = jax.random.split(key, 7)
        zeros, ones = jnp.zeros, jnp.ones
        return {
            "embed": d**-0.5 * jax.random.normal(keys[0], (self.vocab, d)),
            "position": 0.02 * jax.random.normal(keys[1], (self.prompt + self.length, d)),
            "attention_norm": ones((n, d)),
            "attention_norm_bias": zeros((n, d)),
            "qkv": lecun_normal(keys[2], (n, d, 3 * d), d),
            "qkv_bias": zeros((n, 3, h, d // h)),
            "out": lecun_normal(keys[3], (n, d, d), d),
            "out_bias": zeros((n, d)),
            "mlp_norm": ones((n, d)),
            "mlp_norm_bias": zeros((n, d)),
            "up": lecun_normal(keys[4], (n, d, 4 * d), d),
            "up_bias": zeros((n, 4 * d)),
            "down": lecun_normal(keys[5], (n, 4 * d, d), 4 * d),
            "down_bias": zeros((n, d)),
            "final_norm": ones(d),
            "final_norm_bias": zeros(d),
            "head": lecun_normal(keys[6], (d, self.outputs), d),
            "head_bias": zeros(self.outputs),
        }

    # The parts of a layer -------------------------------------------------------------------------

    def _embed(self, params: Params, tokens: jax.Array, start: int | jax.Array) -> jax.Array:
        """Token plus position, [..., n, d]."""
        position = jax.lax.dynamic_slice_in_dim(params["position"], start, tokens.shape[-1])
        return rows(params["embed"], tokens) + position

    def _qkv(self, params: Params, layer: int, x: jax.Array, parts: slice) -> jax.Array:
        """Query, key, value (those in `parts`) of tokens: [..., parts, heads, d_head]."""
        d = self.width
        y = layer_norm(x, params["attention_norm"][layer], params["attention_norm_bias"][layer])
        weight = params["qkv"][layer, :, parts.start * d : parts.stop * d]
        bias = params["qkv_bias"][layer, parts].reshape(-1)
        return linear(y, weight, bias).reshape(*x.shape[:-1], -1, self.heads, d // self.heads)

    def _rest(self, params: Params, layer: int, x: jax.Array, attended: jax.Array) -> jax.Array:
        """x + out(attended), then the MLP with its residual; any leading shape."""
        x = x + linear(attended.reshape(x.shape), params["out"][layer], params["out_bias"][layer])
        y = layer_norm(x, params["mlp_norm"][layer], params["mlp_norm_bias"][layer])
        y = jax.nn.gelu(linear(y, params["up"][layer], params["up_bias"][layer]))
        return x + linear(y, params["down"][layer], params["down_bias"][layer])

    def _logits(self, params: Params, x: jax.Array) -> jax.Array:
        y = layer_norm(x, params["final_norm"], params["final_norm_bias"])
        return linear(y, params["head"], params["head_bias"])

    # The prompt once, then all tokens at once (the update) or one at a time (sampling) ------------

    def prefill(self, params: Params, inputs: jax.Array) -> tuple[jax.Array, list[jax.Array]]:
        """Run the prompts: logits of the first token, [B, V], and keys and values of each layer.

        inputs: [B, H] tokens; keys and values: [B, H, 2, heads, d_head].
        """
        logits, state = self._whole(params, inputs)
        return logits[:, 0], state

    def together(
        self, params: Params, inputs: jax.Array, paths: Paths
    ) -> tuple[jax.Array, jax.Array, list[jax.Array]]:
        """`prefill` and `extend` in a single forward pass: linear maps take all tokens as one tall matrix."""
        b, h, d = *inputs.shape, self.width
        if paths.owner is None:
            logits, state = self._whole(params, jnp.concatenate([inputs, paths.tokens], axis=1))
            return logits[:, 0], logits[:, 1:], [keys_values[:, :h] for keys_values in state]
        prompts, own = self._embed(params, inputs, 0), self._embed(params, paths.tokens, h)
        x = jnp.concatenate([prompts.reshape(-1, d), own.reshape(-1, d)])

        def predicting(x: jax.Array) -> jax.Array:
            return jnp.concatenate([x[h - 1 : b * h : h], x[b * h :]])

        state = []
        for layer in range(self.layers):
            x, query, keys_values = self._layer_inputs(params, layer, x, predicting)
            state.append(keys_values[: b * h].reshape(b, h, *keys_values.shape[1:]))
            attended = _attend_together(query, keys_values[b * h :], state[-1], paths)
            x = self._rest(params, layer, x, attended)
        logits = self._logits(params, x)
        return logits[:b], logits[b:].reshape(*paths.tokens.shape, self.outputs), state

    def _layer_inputs(
        self, params: Params, layer: int, x: jax.Array, predicting: Callable[[jax.Array], jax.Array]
    ) -> tuple[jax.Array, jax.Array, jax.Array]:
        """The tokens whose output a layer computes, their queries, and the keys and values of all tokens.

        The last layer computes only the tokens whose logits are used: of a prompt, its final one.
        """
        if layer < self.layers - 1:
            return x, *split(self._qkv(params, layer, x, slice(0, 3)))
        keys_values = self._qkv(params, layer, x, slice(1, 3))
        x = predicting(x)
        return x, self._qkv(params, layer, x, slice(0, 1))[..., 0, :, :], keys_values

    def _whole(self, params: Params, tokens: jax.Array) -> tuple[jax.Array, list[jax.Array]]:
        """Sequences [R, n] from the prompt on: logits from its last token on, and every key and value."""
        x = self._embed(params, tokens, 0)
        state = []
        for layer in range(self.layers):
            x, query, keys_values = self._layer_inputs(
                params, layer, x, lambda x: x[:, self.prompt - 1 :]
            )
            state.append(keys_values)
            x = self._rest(params, layer, x, attend(query, keys_values))
        return self._logits(params, x), state

    def extend(self, params: Params, state: list[jax.Array], paths: Paths) -> jax.Array:
        """Logits after each token of each path, [R, T-1, V], given the state of its prompt."""
        x = self._embed(params, paths.tokens, self.prompt)
        for layer, prompt in enumerate(state):
            query, own = split(self._qkv(params, layer, x, slice(0, 3)))
            shared = prompt if paths.owner is None else rows(prompt, paths.owner)
            x = self._rest(params, layer, x, attend(query, jnp.concatenate([shared, own], axis=1)))
        return self._logits(params, x)

    def cache(self, state: list[jax.Array], streams: int) -> list[Cache]:
        """The prompts' state laid out for `step`, with space for T-1 tokens of each of S streams."""
        b, _, _, heads, d_head = state[0].shape
        own = jnp.zeros((2, b, streams, heads, self.length - 1, d_head))
        return [Cache(keys_values.transpose(2, 0, 3, 1, 4), own) for keys_values in state]

    def step(
        self, params: Params, cache: list[Cache], tokens: jax.Array, t: jax.Array
    ) -> tuple[jax.Array, list[Cache]]:
        """Feed generated token t, [B, S]: logits of the next, [B, S, V], and the longer cache."""
        b, s = tokens.shape
        x = self._embed(params, tokens.reshape(-1, 1), self.prompt + t)[:, 0]
        seen = jnp.arange(self.length - 1) <= t
        grown = []
        for layer, (prompt, own) in enumerate(cache):
            qkv = self._qkv(params, layer, x, slice(0, 3))
            qkv = qkv.reshape(b, s, *qkv.shape[1:])
            new = jnp.moveaxis(qkv[:, :, 1:], 2, 0)[..., None, :]
            own = jax.lax.dynamic_update_slice_in_dim(own, new, t, axis=4)
            grown.append(Cache(prompt, own))
            x = self._rest(params, layer, x, attend_step(qkv[:, :, 0], prompt, own, seen))
        return self._logits(params, x).reshape(b, s, self.outputs), grown


@dataclass(frozen=True)
class TransformerCritic(Transformer):
    """A transformer with `outputs` values after each token instead of logits, 0 at first."""

    outputs: int = 1

    def init(self, key: jax.Array) -> Params:
        params = super().init(key)
        return {**params, "head": jnp.zeros_like(params["head"])}


def _attend_together(
    query: jax.Array, own: jax.Array, prompt: jax.Array, paths: Paths
) -> jax.Array:
    """Attention of flat tokens: prompts to themselves, paths to their prompt and to themselves.

    query: [B*Q + R*(T-1), heads, d_head], Q of each prompt; own: [R*(T-1), 2, heads, d_head];
    prompt: [B, H, 2, heads, d_head].
    """
    b, (r, t) = len(prompt), paths.tokens.shape
    n_prompt, flat = len(query) - r * t, query.shape[1] * query.shape[2]
    over_prompt = attend(query[:n_prompt].reshape(b, -1, *query.shape[1:]), prompt)
    shared = rows(prompt, paths.owner)
    keys_values = jnp.concatenate([shared, own.reshape(r, t, *own.shape[1:])], axis=1)
    over_paths = attend(query[n_prompt:].reshape(r, t, *query.shape[1:]), keys_values)
    return jnp.concatenate([over_prompt.reshape(-1, flat), over_paths.reshape(-1, flat)])

"""Attention of paths to their prompt and to themselves, as one kernel on a GPU.

A program takes as many paths as fill a tile of rows, with the keys and values of their prompts beside it.
Scores between different paths are masked, so that all of it is products of tiles, and nothing but the result
leaves the chip: neither keys of prompts repeated for each path, nor scores, nor weights.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton as plgpu

from tpo.policies.attention import MASKED

TILE = 64
"""Rows of paths that a program works on."""


@dataclass(frozen=True)
class Sizes:
    """What the rows are: those of `prompts` prompts of h tokens, then those of `paths` paths of t."""

    prompts: int
    h: int
    paths: int
    t: int
    heads: int
    d_head: int

    @property
    def group(self) -> int:
        """Paths in a tile."""
        return TILE // self.t

    @property
    def prompt_rows(self) -> int:
        """Rows for the prompts of a tile, a power of two."""
        return max(16, pl.next_power_of_2(self.group * self.h))

    def fit(self) -> bool:
        """Whether the kernel serves these sizes."""
        return 0 < self.t <= TILE and self.prompt_rows <= 256 and self.d_head in (16, 32, 64)


@partial(jax.custom_vjp, nondiff_argnums=(3, 4))
def attend_paths(
    query: jax.Array, keys_values: jax.Array, owner: jax.Array, sizes: Sizes, interpret: bool = False
) -> jax.Array:
    """[R*T, d] of the paths' rows, which end both arguments.

    query: [.. + R*T, d], keys_values: [B*H + R*T, 2d], owner: [R] the prompt of each path.
    """
    rows = sizes.paths * sizes.t
    shape = [jax.ShapeDtypeStruct((rows, query.shape[1]), query.dtype)]
    return _call(_forward, shape, sizes, interpret)(query, keys_values, owner)[0]


def _fwd(query: Any, keys_values: Any, owner: Any, sizes: Sizes, interpret: bool) -> Any:
    return attend_paths(query, keys_values, owner, sizes, interpret), (query, keys_values, owner)


def _bwd(sizes: Sizes, interpret: bool, saved: Any, d_out: jax.Array) -> Any:
    query, keys_values, owner = saved
    d, rows = query.shape[1], sizes.paths * sizes.t
    shapes = [
        jax.ShapeDtypeStruct(shape, query.dtype)
        for shape in ((rows, d), (rows, 2 * d), (sizes.paths * sizes.h, 2 * d))
    ]
    d_query, d_own, d_prompts = _call(_backward, shapes, sizes, interpret)(
        query, keys_values, owner, d_out
    )
    belongs = jax.nn.one_hot(owner, sizes.prompts, dtype=query.dtype, axis=0)
    d_prompt = (belongs @ d_prompts.reshape(sizes.paths, -1)).reshape(-1, 2 * d)
    asked = jnp.zeros((len(query) - rows, d), query.dtype)
    return jnp.concatenate([asked, d_query]), jnp.concatenate([d_prompt, d_own]), None


attend_paths.defvjp(_fwd, _bwd)


def _call(kernel: Any, shapes: list[Any], sizes: Sizes, interpret: bool) -> Any:
    return pl.pallas_call(
        partial(kernel, sizes),
        out_shape=shapes,
        grid=(-(-sizes.paths // sizes.group), sizes.heads),
        interpret=interpret,
        compiler_params=plgpu.CompilerParams(num_warps=4, num_stages=1),
    )


class _Tile:
    """The rows and the head of one program, as indices and masks."""

    def __init__(self, sizes: Sizes) -> None:
        self.sizes = sizes
        tile, head = pl.program_id(0), pl.program_id(1)
        group, h, t = sizes.group, sizes.h, sizes.t
        mine = jnp.minimum(sizes.paths - tile * group, group)
        row, slot = jnp.arange(TILE), jnp.arange(sizes.prompt_rows)
        self.start, self.prompt_start = tile * group * t, tile * group * h
        self.real, self.real_prompt = row < mine * t, slot < mine * h
        self.first_path = tile * group
        self.sees_own = (row[:, None] // t == row[None] // t) & (row[None] <= row[:, None])
        self.sees_prompt = row[:, None] // t == slot[None] // h
        self.sees_prompt &= self.real_prompt[None]
        self.slot = slot
        self.column = head * sizes.d_head

    def own(self, ref: Any, offset: int, part: int) -> jax.Array:
        """[TILE, d_head]: this head's columns of a part (key 0, value 1) of the tile's rows."""
        return plgpu.load(self._at(ref, offset, part), mask=self._mask(self.real), other=0.0)

    def put(self, ref: Any, part: int, value: jax.Array) -> None:
        plgpu.store(self._at(ref, 0, part), value, mask=self._mask(self.real))

    def put_prompt(self, ref: Any, part: int, value: jax.Array) -> None:
        rows = pl.ds(self.prompt_start, self.sizes.prompt_rows)
        columns = pl.ds(self._columns(part), self.sizes.d_head)
        plgpu.store(ref.at[rows, columns], value, mask=self._mask(self.real_prompt))

    def of_prompts(self, ref: Any, owner_ref: Any, part: int) -> jax.Array:
        """[prompt_rows, d_head] of the prompts of the tile's paths, one after the other."""
        h = self.sizes.h
        path = self.first_path + self.slot // h
        owner = plgpu.load(owner_ref.at[path], mask=self.real_prompt, other=0)
        rows = (owner * h + self.slot % h)[:, None]
        columns = (self._columns(part) + jnp.arange(self.sizes.d_head))[None]
        return plgpu.load(ref.at[rows, columns], mask=self._mask(self.real_prompt), other=0.0)

    def _at(self, ref: Any, offset: int, part: int) -> Any:
        columns = pl.ds(self._columns(part), self.sizes.d_head)
        return ref.at[pl.ds(offset + self.start, TILE), columns]

    def _columns(self, part: int) -> Any:
        return part * self.sizes.heads * self.sizes.d_head + self.column

    def _mask(self, rows: jax.Array) -> jax.Array:
        return jnp.broadcast_to(rows[:, None], (len(rows), self.sizes.d_head))


def _weights(tile: _Tile, query_ref: Any, kv_ref: Any, owner_ref: Any) -> Any:
    """Queries (scaled), keys, values of both kinds, and the two parts of the softmax."""
    sizes = tile.sizes
    kv_offset = sizes.prompts * sizes.h
    q = tile.own(query_ref, query_ref.shape[0] - sizes.paths * sizes.t, 0) * sizes.d_head**-0.5
    k, v = tile.own(kv_ref, kv_offset, 0), tile.own(kv_ref, kv_offset, 1)
    kp, vp = (tile.of_prompts(kv_ref, owner_ref, part) for part in (0, 1))
    own = jnp.where(tile.sees_own, q @ k.T, MASKED)
    prompt = jnp.where(tile.sees_prompt, q @ kp.T, MASKED)
    most = jnp.maximum(own.max(1), prompt.max(1))[:, None]
    own, prompt = jnp.exp(own - most), jnp.exp(prompt - most)
    total = (own.sum(1) + prompt.sum(1))[:, None]
    return (q, k, v, kp, vp), own / total, prompt / total


def _forward(sizes: Sizes, query_ref: Any, kv_ref: Any, owner_ref: Any, out_ref: Any) -> None:
    tile = _Tile(sizes)
    (_, _, v, _, vp), own, prompt = _weights(tile, query_ref, kv_ref, owner_ref)
    tile.put(out_ref, 0, own @ v + prompt @ vp)


def _backward(
    sizes: Sizes, query_ref: Any, kv_ref: Any, owner_ref: Any, d_out_ref: Any,
    d_query_ref: Any, d_own_ref: Any, d_prompts_ref: Any,
) -> None:  # fmt: skip
    tile = _Tile(sizes)
    (q, k, v, kp, vp), own, prompt = _weights(tile, query_ref, kv_ref, owner_ref)
    d_out = tile.own(d_out_ref, 0, 0)
    d_own, d_prompt = d_out @ v.T, d_out @ vp.T
    along = ((d_own * own).sum(1) + (d_prompt * prompt).sum(1))[:, None]
    d_own, d_prompt = own * (d_own - along), prompt * (d_prompt - along)
    tile.put(d_query_ref, 0, (d_own @ k + d_prompt @ kp) * sizes.d_head**-0.5)
    tile.put(d_own_ref, 0, d_own.T @ q)
    tile.put(d_own_ref, 1, own.T @ d_out)
    tile.put_prompt(d_prompts_ref, 0, d_prompt.T @ q)
    tile.put_prompt(d_prompts_ref, 1, prompt.T @ d_out)

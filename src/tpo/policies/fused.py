"""What follows attention in a layer, as one kernel on a GPU: z = x + a W_o, then z + MLP(norm z).

An accelerator spends such a layer on writing activations and reading them again, most of all the 4d wide
ones of the MLP. Here a tile of rows stays on the chip from a and x to the result, and the gradient computes
the activations anew instead of storing them. The same numbers as `layers.rest`, summed in another order.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton as plgpu

from tpo.policies.layers import EPSILON, Rest, linear_gradient

TILE = 64
"""Rows that a program works on at a time."""
PARTS = 8
"""Programs that share the rows when a weight's gradient is summed; their sums are added at the end."""


def fits(width: int) -> bool:
    """Whether the kernel serves this width: it wants a power of two that its tiles hold."""
    return width in (16, 32, 64, 128)


@partial(jax.custom_vjp, nondiff_argnums=(3,))
def rest(x: jax.Array, attended: jax.Array, w: Rest, interpret: bool = False) -> jax.Array:
    """`layers.rest` on a GPU for rows x, attended: [N, d]; interpret: on any device, slowly."""
    n, d = x.shape
    return _call(_forward, [jax.ShapeDtypeStruct((n, d), x.dtype)], -(-n // TILE), interpret)(
        x, attended, *w
    )[0]


def _rest_fwd(x: jax.Array, attended: jax.Array, w: Rest, interpret: bool) -> tuple[Any, Any]:
    return rest(x, attended, w, interpret), (x, attended, w)


def _rest_bwd(interpret: bool, saved: Any, dy: jax.Array) -> tuple[jax.Array, jax.Array, Rest]:
    x, attended, w = saved
    n, d = x.shape
    tiles = -(-n // TILE)
    rows, sums = jax.ShapeDtypeStruct((n, d), x.dtype), jax.ShapeDtypeStruct((tiles, d), x.dtype)
    dz, d_attended, d_norm, d_norm_bias, d_down_bias = _call(
        _inputs_gradient, [rows, rows, sums, sums, sums], tiles, interpret
    )(x, attended, dy, *w)
    parts = min(PARTS, tiles)
    square = jax.ShapeDtypeStruct((parts, 4, d, d), x.dtype)
    line = jax.ShapeDtypeStruct((parts, 4, d), x.dtype)
    d_up, d_up_bias, d_down = _call(_weights_gradient, [square, line, square], (parts, 4), interpret)(
        x, attended, dy, *w
    )
    d_out, d_out_bias = linear_gradient(attended, dz)
    return dz, d_attended, Rest(
        d_out,
        d_out_bias,
        d_norm.sum(0),
        d_norm_bias.sum(0),
        d_up.sum(0).swapaxes(0, 1).reshape(d, 4 * d),
        d_up_bias.sum(0).reshape(4 * d),
        d_down.sum(0).reshape(4 * d, d),
        d_down_bias.sum(0),
    )  # fmt: skip


rest.defvjp(_rest_fwd, _rest_bwd)


def _call(kernel: Any, shapes: list[Any], grid: Any, interpret: bool) -> Any:
    grid = grid if isinstance(grid, tuple) else (grid,)
    return pl.pallas_call(
        kernel,
        out_shape=shapes,
        grid=grid,
        interpret=interpret,
        compiler_params=plgpu.CompilerParams(num_warps=8, num_stages=1),
    )


# The kernels: every reference is a whole array, a program takes its rows of it ------------------


def _rows(ref: Any, tile: Any) -> jax.Array:
    """[TILE, d] of the rows of a tile; 0 beyond the last."""
    return plgpu.load(ref.at[pl.ds(tile * TILE, TILE), :], mask=_inside(ref, tile), other=0.0)


def _put(ref: Any, tile: Any, value: jax.Array) -> None:
    plgpu.store(ref.at[pl.ds(tile * TILE, TILE), :], value, mask=_inside(ref, tile))


def _inside(ref: Any, tile: Any) -> jax.Array:
    n, d = ref.shape
    return jnp.broadcast_to((tile * TILE + jnp.arange(TILE) < n)[:, None], (TILE, d))


def _normed(x_ref: Any, a_ref: Any, w: Rest, tile: Any) -> tuple[jax.Array, jax.Array, jax.Array]:
    """z, its normalised rows and 1/sigma."""
    z = _rows(x_ref, tile) + _rows(a_ref, tile) @ w.out[...] + w.out_bias[...][None]
    mean = z.mean(1)[:, None]
    scale = jax.lax.rsqrt((z * z).mean(1)[:, None] - mean * mean + EPSILON)
    return z, (z - mean) * scale, scale


def _chunk(w: Rest, j: Any, d: int) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Columns of `up`, its bias, rows of `down`: chunk j of the middle's four."""
    here = pl.ds(j * d, d)
    return w.up[:, here], w.up_bias[here], w.down[here, :]


def _gelu(h: jax.Array) -> tuple[jax.Array, jax.Array]:
    """gelu(h) in its tanh form, and its slope."""
    c = 0.7978845608028654
    t = 2 * jax.nn.sigmoid(2 * c * (h + 0.044715 * h * h * h)) - 1
    slope = 0.5 * (1 + t) + 0.5 * h * (1 - t * t) * c * (1 + 3 * 0.044715 * h * h)
    return 0.5 * h * (1 + t), slope


def _forward(x_ref: Any, a_ref: Any, *refs: Any) -> None:
    *weights, y_ref = refs
    w, tile, d = Rest(*weights), pl.program_id(0), x_ref.shape[1]
    z, hat, _ = _normed(x_ref, a_ref, w, tile)
    y = hat * w.norm[...][None] + w.norm_bias[...][None]
    for j in range(4):
        up, up_bias, down = _chunk(w, j, d)
        z = z + _gelu(y @ up + up_bias[None])[0] @ down
    _put(y_ref, tile, z + w.down_bias[...][None])


def _inputs_gradient(x_ref: Any, a_ref: Any, dy_ref: Any, *refs: Any) -> None:
    """Rows of dz (which is dx too) and of d attended; sums over the tile for the norm and a bias."""
    w, (dz_ref, da_ref, d_norm_ref, d_norm_bias_ref, d_down_bias_ref) = Rest(*refs[:8]), refs[8:]
    tile, d = pl.program_id(0), x_ref.shape[1]
    _, hat, scale = _normed(x_ref, a_ref, w, tile)
    y = hat * w.norm[...][None] + w.norm_bias[...][None]
    dy = _rows(dy_ref, tile)
    d_normed = jnp.zeros((TILE, d), dy.dtype)
    for j in range(4):
        up, up_bias, down = _chunk(w, j, d)
        slope = _gelu(y @ up + up_bias[None])[1]
        d_normed = d_normed + (slope * (dy @ down.T)) @ up.T
    d_hat = d_normed * w.norm[...][None]
    along = (d_hat * hat).mean(1)[:, None]
    dz = dy + scale * (d_hat - d_hat.mean(1)[:, None] - hat * along)
    _put(dz_ref, tile, dz)
    _put(da_ref, tile, dz @ w.out[...].T)
    d_norm_ref[tile, :] = (d_normed * hat).sum(0)
    d_norm_bias_ref[tile, :] = d_normed.sum(0)
    d_down_bias_ref[tile, :] = dy.sum(0)


def _weights_gradient(x_ref: Any, a_ref: Any, dy_ref: Any, *refs: Any) -> None:
    """A part's sums for one chunk of the middle: x' dh, dh and g' dy."""
    w, (d_up_ref, d_up_bias_ref, d_down_ref) = Rest(*refs[:8]), refs[8:]
    part, j = pl.program_id(0), pl.program_id(1)
    (n, d), parts = x_ref.shape, d_up_ref.shape[0]
    up, up_bias, down = _chunk(w, j, d)

    def add(i: Any, sums: Any) -> Any:
        tile = part + i * parts
        _, hat, _ = _normed(x_ref, a_ref, w, tile)
        y = hat * w.norm[...][None] + w.norm_bias[...][None]
        dy = _rows(dy_ref, tile)
        value, slope = _gelu(y @ up + up_bias[None])
        dh = slope * (dy @ down.T)
        return sums[0] + y.T @ dh, sums[1] + dh.sum(0), sums[2] + value.T @ dy

    tiles = -(-n // TILE)
    mine = (tiles - part + parts - 1) // parts
    zero = jnp.zeros((d, d), x_ref.dtype)
    d_up, d_up_bias, d_down = jax.lax.fori_loop(0, mine, add, (zero, jnp.zeros(d, zero.dtype), zero))
    d_up_ref[part, j] = d_up
    d_up_bias_ref[part, j] = d_up_bias
    d_down_ref[part, j] = d_down

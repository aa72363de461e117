"""Lanes: the contexts of a batch divided over cores, each part run by a device of its own.

XLA on a CPU runs one small operation after the other, and dividing each among threads costs more than it gains.
Here each of two devices of one thread runs half of the contexts from sampling to gradient. They exchange
what an objective sees of a batch once an episode, and per epoch their log-probs and the sum of their gradients.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.flatten_util import ravel_pytree
from jax.sharding import Mesh, PartitionSpec

LANES = 2
"""As many on every machine: their number decides how sums are rounded."""


class Lanes(NamedTuple):
    """`size` equal parts of a batch; with one lane every function below is the identity."""

    size: int = 1
    axis: str = "lanes"

    def own(self, x: Any, axis: int = 0) -> Any:
        """This lane's part, along `axis`, of what every lane holds whole."""
        if self.size == 1:
            return x
        return jax.tree.map(
            lambda x: jax.lax.dynamic_slice_in_dim(x, *self._range(x.shape[axis]), axis), x
        )

    def whole(self, x: Any) -> Any:
        """The parts of all lanes one after the other; its gradient is that by this lane's part."""
        if self.size == 1:
            return x

        def joined(x: jax.Array) -> jax.Array:
            all_parts = jax.lax.all_gather(jax.lax.stop_gradient(x), self.axis, tiled=True)
            start, _ = self._range(len(all_parts))
            return jax.lax.dynamic_update_slice_in_dim(all_parts, x, start, 0)

        return jax.tree.map(joined, x)

    def total(self, x: Any) -> Any:
        """The sum over lanes of each array, in one exchange."""
        if self.size == 1:
            return x
        flat, restored = ravel_pytree(x)
        return restored(jax.lax.psum(flat, self.axis))  # type: ignore[no-untyped-call]

    def spread(self, program: Callable[..., Any]) -> Callable[..., Any]:
        """The program run in every lane: the same arguments for all, the same results from each."""
        if self.size == 1:
            return program
        devices = jax.devices()[: self.size]
        if len(devices) < self.size:
            raise ValueError(
                f"lanes is {self.size}, and JAX offers {len(devices)} device(s): import tpo.lab.training "
                "before JAX is first used, or leave lanes at 1"
            )
        mesh, same = Mesh(np.array(devices), (self.axis,)), PartitionSpec()  # type: ignore[no-untyped-call]
        return jax.shard_map(program, mesh=mesh, in_specs=same, out_specs=same, check_vma=False)

    def _range(self, rows: int) -> tuple[jax.Array, int]:
        """Start and length of this lane's part of so many rows."""
        if rows % self.size:
            raise ValueError(f"lanes is {self.size}, and does not divide {rows} contexts: take 1")
        part = rows // self.size
        return jax.lax.axis_index(self.axis) * part, part


ALONE = Lanes()
"""A batch that is not divided."""


def offer() -> None:
    """Have JAX offer a CPU device for each lane: before it starts, and unless it was told a number."""
    name, config = "jax_num_cpu_devices", jax.config
    told = "host_platform_device_count" in os.environ.get("XLA_FLAGS", "")
    if getattr(config, name) < 0 and not told:
        with contextlib.suppress(RuntimeError):  # it has started: then there are no lanes
            config.update(name, LANES)  # type: ignore[no-untyped-call]


def available() -> int:
    """How many lanes there are here: one on an accelerator, and where JAX offers a single device."""
    return LANES if jax.default_backend() == "cpu" and jax.device_count() >= LANES else 1

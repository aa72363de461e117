"""Data parallelism on a CPU: the contexts of a batch are divided into shards, each on a device of its own.

XLA on a CPU runs one small operation after the other, and dividing each among threads costs more than it gains.
Here each of two single-threaded devices runs half of the contexts, from sampling to gradient. Once an episode
the devices exchange what an objective needs of the batch; each epoch, their log-probs and the sum of gradients.
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

DATA_PARALLEL_SIZE = 2
"""The same on every machine: the number of shards determines how sums are rounded."""


class DataParallel(NamedTuple):
    """`size` equal shards of a batch; with one shard every function below is the identity."""

    size: int = 1
    axis: str = "data"

    def shard(self, x: Any, axis: int = 0) -> Any:
        """This device's shard, along `axis`, of arrays that every device holds whole."""
        if self.size == 1:
            return x
        return jax.tree.map(
            lambda x: jax.lax.dynamic_slice_in_dim(x, *self._range(x.shape[axis]), axis), x
        )

    def all_gather(self, x: Any) -> Any:
        """The shards of all devices, concatenated; gradients flow to this device's shard only."""
        if self.size == 1:
            return x

        def joined(x: jax.Array) -> jax.Array:
            whole = jax.lax.all_gather(jax.lax.stop_gradient(x), self.axis, tiled=True)
            start, _ = self._range(len(whole))
            return jax.lax.dynamic_update_slice_in_dim(whole, x, start, 0)

        return jax.tree.map(joined, x)

    def all_sum(self, x: Any) -> Any:
        """The sum of each array over the devices, in one exchange."""
        if self.size == 1:
            return x
        flat, restored = ravel_pytree(x)
        return restored(jax.lax.psum(flat, self.axis))  # type: ignore[no-untyped-call]

    def on_all_devices(self, program: Callable[..., Any]) -> Callable[..., Any]:
        """The program on every device: all get the same arguments and return the same results."""
        if self.size == 1:
            return program
        devices = jax.devices()[: self.size]
        if len(devices) < self.size:
            raise ValueError(
                f"data_parallel_size is {self.size}, and JAX offers {len(devices)} device(s): import "
                "tpo.lab.training before JAX is first used, or leave data_parallel_size at 1"
            )
        mesh, same = Mesh(np.array(devices), (self.axis,)), PartitionSpec()  # type: ignore[no-untyped-call]
        return jax.shard_map(program, mesh=mesh, in_specs=same, out_specs=same, check_vma=False)

    def _range(self, rows: int) -> tuple[jax.Array, int]:
        """Start and length of this device's shard of `rows` rows."""
        if rows % self.size:
            raise ValueError(
                f"data_parallel_size is {self.size}, and does not divide {rows} contexts: take 1"
            )
        length = rows // self.size
        return jax.lax.axis_index(self.axis) * length, length


UNSHARDED = DataParallel()
"""A batch on one device."""


def request_devices() -> None:
    """Let JAX create a CPU device for each shard, if JAX has not started and no other number is set."""
    name, config = "jax_num_cpu_devices", jax.config
    told = "host_platform_device_count" in os.environ.get("XLA_FLAGS", "")
    if getattr(config, name) < 0 and not told:
        with contextlib.suppress(RuntimeError):  # it has started: then a batch is not divided
            config.update(name, DATA_PARALLEL_SIZE)  # type: ignore[no-untyped-call]


def available_size() -> int:
    """How many shards are possible here: one on an accelerator, or if JAX has a single device."""
    enough = jax.default_backend() == "cpu" and jax.device_count() >= DATA_PARALLEL_SIZE
    return DATA_PARALLEL_SIZE if enough else 1

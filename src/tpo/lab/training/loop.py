"""The training loop: a cell in, curves out. Compiled once, run in chunks, resumable after each.

The chunk's bounds are arguments of the compiled function, so any chunking runs the same instructions
and gives the same numbers. Every random draw comes from (seed, episode).
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from tpo.lab.rollouts.data_parallel import (
    DATA_PARALLEL_SIZE,
    UNSHARDED,
    DataParallel,
    available_size,
)
from tpo.lab.training.cell import Budget, Cell
from tpo.lab.training.environment import cores
from tpo.lab.training.episode import Learner, State
from tpo.storage.store import Curves, Snapshot

CAPACITY = 1000
"""Most episodes in a chunk; the same for all, so that one program serves every chunk."""
SECONDS = 2.0
"""How long a chunk should take: progress is shown and Ctrl-C handled after each."""
SAVE_SECONDS = 20.0
"""Seconds between checkpoints, at least."""


COMPILER: dict[str, Any] = {
    "cpu": {"xla_backend_optimization_level": 2},
    "gpu": {"xla_gpu_enable_triton_gemm": False, "xla_gpu_autotune_level": 0},
}
"""Compiler options by backend, for the time from start to finish. On a CPU level 2 compiles a quarter faster
than 3 and runs as fast. On a GPU products are cuBLAS's own choice: what is chosen by timing differs from run to
run, and with it the rounding. On an H200 tuning cuBLAS gained nothing; Triton's tuned products made episodes a
tenth to a fifth shorter, and compiling them took 36 s where this takes 17."""


class TrainingProgress(NamedTuple):
    """What a watcher gets after each chunk."""

    episode: int
    curves: Curves
    rate: float
    """Episodes per second since the start or the resumption, without compiling."""


class Step(NamedTuple):
    """What a step gave: the progress, a checkpoint if one is due, the curves if the run is finished."""

    seconds: float
    progress: TrainingProgress | None = None
    saved: Snapshot | None = None
    curves: Curves | None = None


Watcher = Callable[[TrainingProgress], None]


@dataclass(frozen=True)
class Pace:
    """How to run; every None is chosen by measurement.

    chunk, in episodes, and save_every, in seconds, change no bit of the result. batched, block and
    data_parallel_size change the order of sums: runs agree to rounding, until sampling amplifies it.
    """

    chunk: int | None = None
    save_every: float = SAVE_SECONDS
    batched: bool | None = None
    """All seeds in one program (better on an accelerator), or one after the other (on a CPU)."""
    block: int | None = None
    """Rows of paths computed at a time; by default `block_rows`."""
    threads: int | None = None
    """Seeds at a time if they are looped; changes no bit."""
    data_parallel_size: int | None = None
    """Shards of a batch that are computed in parallel; by default `data_parallel_size_for` the cell."""

    def __post_init__(self) -> None:
        if self.chunk is not None and self.chunk < 1:
            raise ValueError(
                f"chunk is {self.chunk}, expected at least 1 episode, or none to measure it"
            )


def run(cell: Cell, watch: Watcher | None = None, pace: Pace | None = None) -> Curves:
    """Train, and return a curve [seeds, episodes] for each measure.

    Nothing is saved: `tpo.lab.execution.runner.run_cell` keeps the run in a store, and resumes it.
    """
    training = TrainingRun(cell, pace or Pace())
    training.restore(None)
    for step in training.steps(math.inf):
        if watch and step.progress:
            watch(step.progress)
    return training.curves()


class TrainingRun:
    """A run in progress: states of the seeds, curves so far, the compiled chunk."""

    def __init__(self, cell: Cell, pace: Pace) -> None:
        """Load the data; nothing is compiled or run yet."""
        self.cell = cell
        self.pace = pace
        cpu = jax.default_backend() == "cpu"
        self.batched = not cpu if pace.batched is None else pace.batched
        self.seeds = np.arange(cell.budget.seeds, dtype=np.uint32) + cell.budget.first_seed
        size = 1 if self.batched else pace.data_parallel_size or data_parallel_size_for(cell)
        parallel = DataParallel(size)
        block = pace.block or block_rows(cell, parallel)
        axis = "seeds" if self.batched else None
        self.learner = Learner(_episode_cell(cell), block, axis, parallel)
        self.data = cell.task.load()
        self.episode = 0
        self.ran = 0
        self.seconds = 0.0
        self.parts: dict[str, list[np.ndarray]] = {}
        one = self.batched or parallel.size > 1
        self.workers = 1 if one else min(pace.threads or cores(), len(self.seeds))
        self._chunk = min(self.pace.chunk or 1, CAPACITY)
        self.states: list[State] = []

    def restore(self, saved: Snapshot | None) -> None:
        """Start from the seeds, or from a checkpoint."""
        init = jax.jit(jax.vmap(self.learner.init) if self.batched else self.learner.init)
        seeds = [jnp.asarray(self.seeds)] if self.batched else list(jnp.asarray(self.seeds))
        self.states = [init(seed) for seed in seeds]
        if saved is None:
            return
        leaves, structure = jax.tree.flatten(self.states)
        if [x.shape for x in leaves] != [x.shape for x in saved.state]:
            raise ValueError(
                "the checkpoint does not fit this run (seeds batched or looped as before?): "
                "remove it, or run where it was written"
            )
        arrays = [jnp.asarray(x, like.dtype) for x, like in zip(saved.state, leaves, strict=True)]
        self.states = jax.tree.unflatten(structure, arrays)
        self.episode = saved.episode
        self.parts = {name: [x] for name, x in saved.curves.items()}

    def snapshot(self) -> Snapshot:
        state = [np.asarray(x) for x in jax.tree.leaves(self.states)]
        return Snapshot(self.episode, self.curves(), state)

    def curves(self) -> Curves:
        """[seeds, episodes so far] of each measure."""
        self.parts = {name: [np.concatenate(x, axis=1)] for name, x in self.parts.items()}
        return {name: x[0] for name, x in self.parts.items()}

    def steps(self, save_every: float, least: float = 0.0) -> Iterator[Step]:
        """Advance to the end, a chunk at a time, or as many as take `least` seconds.

        save_every: seconds between checkpoints, at least.
        """
        total, last_save = self.cell.budget.episodes, time.monotonic()
        finished = False
        while not finished:
            began, saved = time.monotonic(), None
            while self.episode < total:
                self.advance()
                if time.monotonic() - began >= least:
                    break
            finished, curves = self.episode == total, self.curves()
            if not finished and time.monotonic() - last_save >= save_every:
                saved, last_save = self.snapshot(), time.monotonic()
            progress = TrainingProgress(self.episode, curves, self.rate)
            seconds = time.monotonic() - began
            yield Step(seconds, progress, saved, curves if finished else None)

    def advance(self) -> None:
        """Run the next chunk for every seed."""
        stop = min(self.episode + self._chunk, self.cell.budget.episodes)
        compiled = self.program()
        began = time.monotonic()
        with ThreadPoolExecutor(self.workers) as pool:
            results = list(pool.map(lambda s: self._one(compiled, s, stop), self.states))
        took = time.monotonic() - began
        if self.parts and (other := self.parts.keys() ^ results[0][1].keys()):
            raise ValueError(
                f"the checkpoint and this run do not both have the curves {', '.join(sorted(other))}: remove "
                "the checkpoint, or run with the tpo that wrote it"
            )
        ran = stop - self.episode
        for name in results[0][1]:
            rows = [np.asarray(metrics[name])[..., :ran] for _, metrics in results]
            part = np.concatenate([np.atleast_2d(row) for row in rows])
            self.parts.setdefault(name, []).append(part)
        self.states = [state for state, _ in results]
        self.episode = stop
        self.ran += ran
        self.seconds += took
        if self.pace.chunk is None:
            self._chunk = int(np.clip(SECONDS / max(took / ran, 1e-9), 1, CAPACITY))

    @property
    def rate(self) -> float:
        return self.ran / max(self.seconds, 1e-9)

    def _one(self, compiled: Any, state: State, stop: int) -> Any:
        result = compiled(self.data, state, jnp.int32(self.episode), jnp.int32(stop))
        return jax.tree.map(lambda x: x.block_until_ready(), result)

    def program(self) -> Any:
        """The compiled chunk; compiling is what takes time."""
        arguments = (self.data, self.states[0], jnp.int32(0), jnp.int32(0))
        key = (self.learner, self.batched, len(self.seeds) if self.batched else 1)
        if key not in _PROGRAMS:
            while len(_PROGRAMS) >= KEPT_PROGRAMS:
                del _PROGRAMS[next(iter(_PROGRAMS))]
            chunk = self.learner.parallel.on_all_devices(chunk_of(self.learner))
            lowered = jax.jit(chunk).lower(*arguments)
            _PROGRAMS[key] = lowered.compile(COMPILER.get(jax.default_backend()))
        return _PROGRAMS[key]


_PROGRAMS: dict[Any, Any] = {}
"""The latest programs, reused by cells that differ only in seeds or episodes."""
KEPT_PROGRAMS = 8


def _episode_cell(cell: Cell) -> Cell:
    """The cell without fields that no episode depends on. Annealed options depend on the number of episodes."""
    budget = Budget(cell.budget.batch)
    if cell.method.build().uses_progress:
        budget = replace(budget, episodes=cell.budget.episodes)
    return replace(cell, budget=budget)


def chunk_of(learner: Learner) -> Callable[..., Any]:
    """(data, state, start, stop) to the state after those episodes, and the metrics of each."""
    episode: Any = jax.jit(learner.episode)  # traced once, for its shapes and for the loop
    if learner.axis:
        episode = jax.vmap(episode, in_axes=(0, None, None), axis_name=learner.axis)

    def chunk(data: Any, state: State, start: jax.Array, stop: jax.Array) -> Any:
        shapes = jax.eval_shape(episode, state, data, start)[1]
        metrics_of = {name: jnp.zeros((*x.shape, CAPACITY), x.dtype) for name, x in shapes.items()}

        def body(i: jax.Array, carry: Any) -> Any:
            state, filled = carry
            state, metrics = episode(state, data, i)
            return state, {n: x.at[..., i - start].set(metrics[n]) for n, x in filled.items()}

        return jax.lax.fori_loop(start, stop, body, (state, metrics_of))

    return chunk


def data_parallel_size_for(cell: Cell) -> int:
    """Shards of a batch: on a CPU more than one if a single seed would leave cores idle.

    Several seeds keep the cores busy by themselves, and an episode of one action is too short to divide.
    """
    divides = cell.budget.batch % DATA_PARALLEL_SIZE == 0 and cell.task.length > 1
    return available_size() if divides and cell.budget.seeds == 1 else 1


def block_rows(cell: Cell, parallel: DataParallel = UNSHARDED) -> int:
    """Paths computed at a time if seeds are looped: as many as fit in a CPU's caches."""
    return max(16, 1200 // parallel.size // max(cell.task.length - 1, 1))

"""The time of tpo's coefficients in verl's controller, against 1% of a modelled step; verl is not needed.

The controller gets ragged rows (uid, key, mask, scores and log-probs of each token) and returns a coefficient
for each token. The measured part groups rows by uid, sums scores, computes the objective and expands it to
tokens.

The step model is a lower bound: 8·P floating-point operations per token (2·P for log-probs of the rollout
policy, 6·P for the update), P = 1.7e9, on 64 GPUs with 989e12 operations per second at half of that rate. It
leaves out sampling, which takes most of a real step.
"""

from __future__ import annotations

import os
import statistics
import time
import tracemalloc
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tpo.benchmarks.timing import BenchmarkRow

if TYPE_CHECKING:
    from tpo.llm.verl.rollouts import Rollouts

K = 16
SIZES = ((10**4, 10**3), (10**4, 10**4), (10**5, 10**3), (10**5, 10**4))
"""rollouts and the longest rollout; lengths are uniform from half of the longest, so 3/4 of it on average"""
METHODS: dict[str, tuple[str, dict[str, Any]]] = {
    "tpo ratio": ("tpo", {}),
    "tpo mean": ("tpo", {"score": "mean"}),
    "grpo": ("grpo", {}),
}
TOKEN_LEVEL: tuple[str, str, dict[str, Any]] = ("dapo", "dapo", {})
"""an objective that needs [B, K, T]; measured at the first size only"""
BYTES = 24
"""memory per token: int64 mask, float32 scores, log-probs and coefficient, and a margin"""


def rows(sizes: tuple[tuple[int, int], ...] = SIZES, rounds: int = 3) -> list[BenchmarkRow]:
    """Time on one thread by size and method, for sizes that fit into memory; then peak memory."""
    import torch

    torch.set_num_threads(1)
    found: list[BenchmarkRow] = []
    for rollouts, longest in sizes:
        if rollouts * longest * BYTES > free_memory() / 2:
            continue
        batch = SyntheticBatch(rollouts, longest)
        methods = [(name, *method) for name, method in METHODS.items()]
        for name, objective, options in methods + ([TOKEN_LEVEL] if not found else []):
            seconds = timed(batch.step(objective, options), rounds)
            found.append(_row(f"{name}: {rollouts:.0e} x {longest:.0e}", seconds, batch.tokens))
    small = SyntheticBatch(*sizes[0])
    return found + [
        _memory_row(f"{name}: memory", small, small.step(objective, options))
        for name, (objective, options) in METHODS.items()
    ]


def step_seconds(
    tokens: float,
    parameters: float = 1.7e9,
    gpus: int = 64,
    operations: float = 989e12,
    used: float = 0.5,
) -> float:
    """Seconds of the modelled step; a real one takes longer, because of sampling and communication."""
    return 8 * parameters * tokens / (gpus * operations * used)


def _row(name: str, seconds: float, tokens: int) -> BenchmarkRow:
    allowed = 0.01 * step_seconds(tokens)
    return BenchmarkRow(
        name=name,
        microseconds=1e6 * seconds,
        baseline="1% of a modelled step",
        baseline_microseconds=1e6 * allowed,
        ratio=seconds / allowed,
    )


def _memory_row(name: str, batch: SyntheticBatch, step: Callable[[], Any]) -> BenchmarkRow:
    """Peak memory as tracemalloc counts it: of NumPy arrays, which are all that grow with the batch."""
    tracemalloc.start()
    step()
    peak = tracemalloc.get_traced_memory()[1] / 1e6
    tracemalloc.stop()
    dense = 4 * batch.rollouts * batch.longest / 1e6
    return BenchmarkRow(
        name=name,
        microseconds=1e6 * peak,
        baseline="one float32 [B, K, T]",
        baseline_microseconds=1e6 * dense,
        ratio=peak / dense,
        unit="MB",
    )


class SyntheticBatch:
    """Random rollouts as verl's controller has them."""

    def __init__(self, rollouts: int, longest: int) -> None:
        """Groups of K candidates, of which a third succeed."""
        import torch

        from tpo.llm.verl.rollouts import Ragged

        draw = torch.Generator().manual_seed(0)
        lengths = torch.randint(longest // 2, longest + 1, (rollouts,), generator=draw)
        starts = torch.cat([torch.zeros(1, dtype=torch.int64), lengths.cumsum(0)])
        self.rollouts, self.longest, self.tokens = rollouts, longest, int(starts[-1])
        self.uids = [f"{i // K:032x}" for i in range(rollouts)]
        self.keys = [f"{uid}_{i % K}_0" for i, uid in enumerate(self.uids)]
        scores = torch.zeros(self.tokens)
        scores[starts[1:] - 1] = (torch.rand(rollouts, generator=draw) < 1 / 3).float()
        self.scores = Ragged(scores, starts)
        self.mask = Ragged(torch.ones(self.tokens, dtype=torch.int64), starts)
        self.old = Ragged(-torch.rand(self.tokens, generator=draw), starts)

    def step(self, name: str, options: dict[str, Any]) -> Callable[[], Any]:
        """A function that does the controller's work for one rollout batch."""
        from tpo.llm.objective_options import build_objective
        from tpo.llm.verl.rollouts import Rollouts, needs_log_probs, places

        objective = build_objective(name, options, 0.0, "")
        old = self.old if needs_log_probs(objective, 1) else None

        def step() -> Rollouts:
            made = Rollouts(
                objective, places(self.uids, self.keys), self.scores.sums(), self.mask, old
            )
            made.coefficients()
            return made

        return step


def timed(step: Callable[[], Any], rounds: int) -> float:
    """Median seconds of a call, after one warm-up call."""
    times = []
    for _ in range(rounds + 1):
        start = time.perf_counter()
        step()
        times.append(time.perf_counter() - start)
    return statistics.median(times[1:])


def free_memory() -> int:
    """Bytes of free memory."""
    return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")

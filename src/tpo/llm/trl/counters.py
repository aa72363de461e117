"""Counters that are saved with checkpoints, so that a resumed run does not count from 0."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from typing import Any

from transformers import TrainerCallback


class CheckpointedCounter(TrainerCallback):  # type: ignore[misc]
    """Counters that are written into the trainer's state after each step, and read from that of a checkpoint.

    Transformers writes `stateful_callbacks` into trainer_state.json. In an older checkpoint ours are missing.
    """

    name: str
    """the key in `stateful_callbacks`"""

    def to_dict(self) -> dict[str, Any]:
        """The counts so far, as JSON holds them."""
        raise NotImplementedError

    def restore(self, counts: dict[str, Any]) -> None:
        """Continue from what `to_dict` returned."""
        raise NotImplementedError

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Continue from the checkpoint, if there is one."""
        if counts := state.stateful_callbacks.get(self.name):
            self.restore(counts)

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Before a checkpoint may be written."""
        state.stateful_callbacks[self.name] = self.to_dict()


class ElapsedSeconds(CheckpointedCounter):
    """Seconds of a run, from now on and in its earlier parts."""

    name = "tpo_seconds"

    def __init__(self) -> None:
        """Start the clock."""
        self._start = time.perf_counter()

    @property
    def total(self) -> float:
        """So far."""
        return time.perf_counter() - self._start

    def to_dict(self) -> dict[str, Any]:
        """As JSON."""
        return {"seconds": self.total}

    def restore(self, counts: dict[str, Any]) -> None:
        """Add the seconds up to the checkpoint."""
        self._start -= counts["seconds"]


class SkipAndFailureCounts(CheckpointedCounter):
    """Steps that were skipped, and completions that reward functions could not score."""

    name = "tpo_counters"

    def __init__(self, skip_steps: Any, reward_funcs: Sequence[Any]) -> None:
        """Of a trainer's `SkipSteps` and reward functions."""
        self.skip_steps = skip_steps
        self.failures = [f.failures for f in reward_funcs if hasattr(f, "failures")]

    @property
    def failures_by_kind(self) -> dict[str, int]:
        """Completions that could not be scored, of all functions."""
        return dict(sum((one.counts for one in self.failures), Counter[str]()))

    def to_dict(self) -> dict[str, Any]:
        """As JSON."""
        steps = self.skip_steps
        return {
            "skipped": steps.nonfinite,
            "zero_gradient": steps.zero_gradient,
            "reports": list(steps.reports),
            "failures": [dict(one.counts) for one in self.failures],
        }

    def restore(self, counts: dict[str, Any]) -> None:
        """As the checkpoint has them; with another number of reward functions, failures start from 0."""
        steps = self.skip_steps
        steps.nonfinite = counts["skipped"]
        steps.zero_gradient = counts["zero_gradient"]
        steps.reports = list(counts["reports"])
        if len(counts["failures"]) == len(self.failures):
            for one, by_kind in zip(self.failures, counts["failures"], strict=True):
                one.counts = Counter(by_kind)

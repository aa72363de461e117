"""Counters that belong to a checkpoint: a resumed run counts on from there, not from 0."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from typing import Any

from transformers import TrainerCallback


class CheckpointedCounter(TrainerCallback):  # type: ignore[misc]
    """Counters that go into the trainer's state after each step, and come from that of a checkpoint.

    Transformers writes `stateful_callbacks` into trainer_state.json; an older checkpoint has none of ours.
    """

    name: str

    def noted(self) -> dict[str, Any]:
        """The numbers so far, as JSON holds them."""
        raise NotImplementedError

    def restore(self, noted: dict[str, Any]) -> None:
        """Count on from these."""
        raise NotImplementedError

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Count on from the checkpoint, if there is one."""
        if noted := state.stateful_callbacks.get(self.name):
            self.restore(noted)

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Before a checkpoint may be written."""
        state.stateful_callbacks[self.name] = self.noted()


class Seconds(CheckpointedCounter):
    """Seconds of a run from now on, and those of its earlier parts."""

    name = "tpo_seconds"

    def __init__(self) -> None:
        """Start the clock."""
        self._start = time.perf_counter()

    @property
    def total(self) -> float:
        """So far."""
        return time.perf_counter() - self._start

    def noted(self) -> dict[str, Any]:
        """As JSON."""
        return {"seconds": self.total}

    def restore(self, noted: dict[str, Any]) -> None:
        """Add those up to the checkpoint."""
        self._start -= noted["seconds"]


class Counters(CheckpointedCounter):
    """Steps that were skipped, and completions that reward functions could not score."""

    name = "tpo_counters"

    def __init__(self, skipping: Any, reward_funcs: Sequence[Any]) -> None:
        """Of a trainer."""
        self.skipping = skipping
        self.failures = [f.failures for f in reward_funcs if hasattr(f, "failures")]

    @property
    def by_kind(self) -> dict[str, int]:
        """Completions that could not be scored, of all functions."""
        return dict(sum((one.counts for one in self.failures), Counter[str]()))

    def noted(self) -> dict[str, Any]:
        """As JSON."""
        own = self.skipping
        return {
            "skipped": own.skipped,
            "zero_gradient": own.zero_gradient,
            "reports": list(own.reports),
            "failures": [dict(one.counts) for one in self.failures],
        }

    def restore(self, noted: dict[str, Any]) -> None:
        """As the checkpoint has them; another number of reward functions starts from 0."""
        own = self.skipping
        own.skipped = noted["skipped"]
        own.zero_gradient = noted["zero_gradient"]
        own.reports = list(noted["reports"])
        if len(noted["failures"]) == len(self.failures):
            for one, counts in zip(self.failures, noted["failures"], strict=True):
                one.counts = Counter(counts)

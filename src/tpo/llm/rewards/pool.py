"""Scoring: completions to scores, by a scorer in processes of its own and within a time limit.

If the scorer raises, hangs, or returns None, NaN or infinity, the failure is counted and reported. The
completion has no score, and training continues. A process that hangs is killed and replaced.
"""

from __future__ import annotations

import copy
import json
import time
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from queue import SimpleQueue
from typing import Any

from tpo.checks import one_line
from tpo.llm.rewards.sandbox import DEFAULT, Sandbox
from tpo.llm.rewards.worker import ScorerError, ScoringWorker
from tpo.llm.run_options import LIMIT, ScoringOptions
from tpo.options import COUNT, is_number, shown


class Failures:
    """How many completions could not be scored, by kind; the first of each kind is reported."""

    def __init__(self) -> None:
        """No failures yet."""
        self.counts: Counter[str] = Counter()
        self.first: dict[str, str] = {}

    def add(self, kind: str, what: str) -> None:
        """Count a failure, and warn if it is the first of its kind in this process."""
        kind, what = one_line(kind), one_line(what)
        self.counts[kind] += 1
        if kind not in self.first:
            self.first[kind] = what
            warnings.warn(
                f"a completion could not be scored ({kind}: {what}); it is left out of its group, unless "
                "another reward scores it. Further ones of this kind are counted in the logs",
                RuntimeWarning,
                stacklevel=3,
            )

    @property
    def total(self) -> int:
        """The number of failures of all kinds."""
        return sum(self.counts.values())


class Scoring:
    """A TRL reward function: every completion to a score or None, never raising, never hanging.

    `scorer` says what to load in the workers (see `scorers.load`). It is called by position with a completion
    and the dataset's `columns`. With a `threshold`, a score above it becomes 1, any other 0.
    """

    is_guarded = True

    def __init__(
        self,
        scorer: Mapping[str, Any],
        columns: Sequence[str] = ("answer",),
        timeout: float = ScoringOptions.timeout,
        workers: int = ScoringOptions.scorers,
        threshold: float | None = None,
        sandbox: Sandbox = DEFAULT,
    ) -> None:
        """`timeout` is in seconds per completion; the processes start with the first call."""
        self._workers: list[ScoringWorker] = []
        LIMIT.check("timeout", timeout)
        COUNT.check("workers", workers)
        sandbox.check()
        self.scorer = dict(scorer)
        self.columns = tuple(columns)
        self.timeout = timeout
        self.threshold = threshold
        self.failures = Failures()
        self.failed = 0
        """completions without a score in the last call"""
        self.seconds = 0.0
        """of the last call"""
        self.__name__ = str(scorer.get("name", "score"))
        loaded = {**self.scorer, "columns": self.columns}
        self._workers = [ScoringWorker(loaded, sandbox) for _ in range(workers)]
        self._idle: SimpleQueue[ScoringWorker] = SimpleQueue()
        for worker in self._workers:
            self._idle.put(worker)

    def __call__(self, completions: Sequence[Any], **given: Any) -> list[float | None]:
        """Scores of these completions; `given` has the columns of the dataset, as TRL passes them."""
        start = time.perf_counter()
        rows = [
            (c, {k: given[k][i] for k in self.columns if k in given})
            for i, c in enumerate(completions)
        ]
        if len(rows) == 1:
            replies = [self._request(*rows[0])]
        else:
            with ThreadPoolExecutor(len(self._workers)) as pool:
                replies = list(pool.map(lambda row: self._request(*row), rows))
        scores = [self._score(reply) for reply in replies]
        self.failed = scores.count(None)
        self.seconds = time.perf_counter() - start
        return scores

    def check(self) -> None:
        """Load the scorer now; ValueError if that fails, since no completion would have a score."""
        try:
            self._workers[0].start()
        except ScorerError as error:
            raise ValueError(
                f"scorer {self.__name__!r} cannot be loaded ({error}): give module:function that Python "
                f"finds from here, of ({', '.join(('completion', *self.columns))})"
            ) from None

    def _request(self, completion: Any, columns: Mapping[str, Any]) -> dict[str, Any]:
        """The reply of the next idle worker; a call waits if other threads use all workers."""
        try:
            row = {"completion": text_of(completion), **columns}
        except (TypeError, ValueError, RecursionError) as error:
            return {"kind": "no text", "error": str(error)}
        worker = self._idle.get()
        try:
            return worker.request(row, self.timeout)
        finally:
            self._idle.put(worker)

    def _score(self, reply: Mapping[str, Any]) -> float | None:
        """The score of a reply; a failure is counted, and its score is None."""
        if "error" in reply:
            self.failures.add(str(reply.get("kind", "raised")), str(reply["error"]))
            return None
        score = reply.get("score")
        if score is None or not is_number(score):
            self.failures.add("no finite number", f"the scorer returned {shown(score)}")
            return None
        if self.threshold is not None:
            return float(score > self.threshold)
        return float(score)

    def with_own_failures(self) -> Scoring:
        """The same scorer and processes, with a separate count of failures."""
        other = copy.copy(self)
        other.failures = Failures()
        return other

    def close(self) -> None:
        """End the processes; a later call starts new ones."""
        for worker in self._workers:
            worker.close()


def text_of(completion: Any) -> str:
    """The text of a completion: a string as it is, of a conversation the content of the last message.

    TypeError for anything else; ValueError or RecursionError for content that JSON cannot hold.
    """
    if isinstance(completion, str):
        return completion
    is_list = isinstance(completion, (list, tuple))
    if not is_list or not all(isinstance(message, Mapping) for message in completion):
        raise TypeError(f"a completion is {shown(completion)}, expected text or a list of messages")
    content = completion[-1].get("content", "") if completion else ""
    return content if isinstance(content, str) else json.dumps(content)

"""Scoring: completions to scores by a scorer in processes of its own, each answer within a time limit.

A scorer that raises, hangs, or returns None, NaN or infinity is counted and reported, its completion is not
scored, and training goes on: a process that hangs is ended and replaced.
"""

from __future__ import annotations

import copy
import json
import math
import select
import subprocess
import sys
import time
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from queue import SimpleQueue
from typing import Any

START = 120.0
"""Seconds that a worker may take to import the scorer."""


class Failures:
    """How many completions could not be scored, by kind; the first of each kind is reported."""

    def __init__(self) -> None:
        """None yet."""
        self.counts: Counter[str] = Counter()
        self.first: dict[str, str] = {}

    def add(self, kind: str, what: str) -> None:
        """Count one; warn if it is the first of its kind, since a resume too."""
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
        """All kinds."""
        return sum(self.counts.values())


class Worker:
    """A process that scores one completion after another, asked in JSON lines."""

    def __init__(self, scorer: Mapping[str, Any]) -> None:
        """Start it; `scorer` is what `tpo.llm.rewards.scorers.load` takes."""
        self._process: subprocess.Popen[bytes] | None = None
        self._scorer = json.dumps(scorer)

    def ask(self, row: Mapping[str, Any], timeout: float) -> dict[str, Any]:
        """The answer: a `score`, or an `error` with its `kind`."""
        try:
            process = self._started()
            assert process.stdin is not None
            process.stdin.write(json.dumps(row).encode() + b"\n")
            process.stdin.flush()
            line = self._line(timeout)
        except TimeoutError:
            self.close()
            return {"kind": "hung", "error": f"no score within {timeout:g} s"}
        except (OSError, ScorerError) as error:
            self.close()
            return {"kind": "raised", "error": str(error)}
        found: dict[str, Any] = json.loads(line)
        return found

    def __del__(self) -> None:
        self.close()

    def close(self) -> None:
        """End the process, whatever it is doing."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            for pipe in (self._process.stdin, self._process.stdout):
                if pipe is not None:
                    pipe.close()
            self._process = None

    def start(self) -> None:
        """Start the process, if it is not there; ScorerError where the scorer cannot be loaded."""
        try:
            self._started()
        except (OSError, ScorerError) as error:
            self.close()
            raise ScorerError(str(error) or f"not loaded within {START:g} s") from None

    def _started(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tpo.llm.rewards.subprocess_worker", self._scorer],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                bufsize=0,
                start_new_session=True,  # Ctrl-C is for the parent, which then ends it
            )
            ready = json.loads(self._line(START))
            if "error" in ready:
                raise ScorerError(ready["error"])
        return self._process

    def _line(self, timeout: float) -> bytes:
        assert self._process is not None
        assert self._process.stdout is not None
        pipe = self._process.stdout
        end = time.monotonic() + timeout
        line = b""
        while not line.endswith(b"\n"):
            left = end - time.monotonic()
            if left <= 0 or not select.select([pipe], [], [], left)[0]:
                raise TimeoutError
            part = pipe.read(65536)
            if not part:
                raise ScorerError("the scorer ended its process")
            line += part
        return line


class ScorerError(RuntimeError):
    """The scorer's process could not start or ended."""


class Scoring:
    """A TRL reward function: every completion to a score or None, never raising, never hanging.

    `scorer` says what to load in the workers (see `scorers.load`); `columns` are the dataset columns that
    go to it after each completion, by position; `threshold` makes scores 1 above it and 0 elsewhere.
    """

    guards_itself = True

    def __init__(
        self,
        scorer: Mapping[str, Any],
        columns: Sequence[str] = ("answer",),
        timeout: float = 10.0,
        workers: int = 2,
        threshold: float | None = None,
    ) -> None:
        """Workers start with the first call."""
        self._workers: list[Worker] = []
        if not timeout > 0:
            raise ValueError(f"timeout is {timeout}, expected seconds above 0, such as 10")
        if workers < 1:
            raise ValueError(f"workers is {workers}, expected at least 1")
        self.scorer = dict(scorer)
        self.columns = tuple(columns)
        self.timeout = timeout
        self.threshold = threshold
        self.failures = Failures()
        self.failed = 0
        """completions of the last call without a score"""
        self.seconds = 0.0
        self.__name__ = str(scorer.get("name", "score"))
        loaded = {**self.scorer, "columns": self.columns}
        self._workers = [Worker(loaded) for _ in range(workers)]
        self._free: SimpleQueue[Worker] = SimpleQueue()
        for worker in self._workers:
            self._free.put(worker)

    def __call__(self, completions: Sequence[Any], **given: Any) -> list[float | None]:
        """Scores of these completions; `given` holds the dataset's columns, as TRL passes them."""
        start = time.perf_counter()
        rows = [
            {"completion": text_of(c), **{k: given[k][i] for k in self.columns if k in given}}
            for i, c in enumerate(completions)
        ]
        if len(rows) == 1:
            answers = [self._ask(rows[0])]
        else:
            with ThreadPoolExecutor(len(self._workers)) as pool:
                answers = list(pool.map(self._ask, rows))
        scores = [self._score(answer) for answer in answers]
        self.failed = scores.count(None)
        self.seconds = time.perf_counter() - start
        return scores

    def check(self) -> None:
        """Load the scorer now: one that cannot be loaded would leave every completion without a score."""
        try:
            self._workers[0].start()
        except ScorerError as error:
            raise ValueError(
                f"scorer {self.__name__!r} cannot be loaded ({error}): give module:function that Python "
                f"finds from here, of ({', '.join(('completion', *self.columns))})"
            ) from None

    def _ask(self, row: Mapping[str, Any]) -> dict[str, Any]:
        """The answer of the next worker that is free; calls from several threads take turns."""
        worker = self._free.get()
        try:
            return worker.ask(row, self.timeout)
        finally:
            self._free.put(worker)

    def _score(self, answer: Mapping[str, Any]) -> float | None:
        if "error" in answer:
            self.failures.add(str(answer.get("kind", "raised")), str(answer["error"]))
            return None
        score = answer.get("score")
        if not isinstance(score, (int, float)) or not math.isfinite(score):
            self.failures.add("no finite number", f"the scorer returned {score!r}")
            return None
        if self.threshold is not None:
            return float(score > self.threshold)
        return float(score)

    def apart(self) -> Scoring:
        """The same scorer and processes, with a count of failures of its own."""
        other = copy.copy(self)
        other.failures = Failures()
        return other

    def close(self) -> None:
        """End the workers; a later call starts new ones."""
        for worker in self._workers:
            worker.close()


def text_of(completion: Any) -> str:
    """The text of a completion: itself, or the content of the last message of a conversation."""
    if isinstance(completion, str):
        return completion
    content = completion[-1].get("content", "") if completion else ""
    return content if isinstance(content, str) else json.dumps(content)

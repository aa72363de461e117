"""Train the runs of a comparison: one after another in this process, or several at a time in processes."""

from __future__ import annotations

import contextlib
import gc
import os
import sys
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from tpo.llm.comparison.plan import Run
from tpo.llm.comparison.run_log import RunLog
from tpo.llm.runs.artifacts import read_lines
from tpo.llm.runs.recipe import Recipe
from tpo.processes import Failed, Lost, ProcessWorker, answered, first_ready
from tpo.storage.files import write_json

STATUS_INTERVAL = 60.0
"""Seconds between two lines about the runs under way."""

OUT_OF_MEMORY = ("out of memory", "STATUS_ALLOC_FAILED", "CUBLAS_STATUS_NOT_INITIALIZED")
"""What libraries say when a GPU is full."""

OnEnd = Callable[[Run], Sequence[Run]]
"""Called with each run that ended; returns the runs that can start now."""


def run_in_turn(runs: Sequence[Run], base: Path, on_end: OnEnd) -> None:
    """One after another, in this process; a run that raises stops them all, unless it is a tuning run."""
    waiting = deque(runs)
    while waiting:
        run = waiting.popleft()
        if run.is_tuning:
            answer = answered(train_or_resume, (run.recipe, base))
            if isinstance(answer, Failed):
                _write_failure(run, answer)
        else:
            train_or_resume(run.recipe, base)
        waiting.extend(on_end(run))


def run_in_processes(runs: Sequence[Run], base: Path, on_end: OnEnd, workers: int) -> None:
    """Several at a time, each in a process of its own.

    A run that raises or whose process dies leaves failed.json, and the others continue. A run that finds no
    memory beside others is tried again, with one fewer at a time than there were. Others that fail for the same
    reason, before its memory is free, do not lower the number again. Two runs that end together may both ask
    for the same next run: it is trained once.
    """
    pool = _Pool(runs, base, on_end, workers)
    try:
        pool.run()
    finally:
        pool.end()


class _Pool:
    """Runs that wait, and worker processes, each busy with a run or idle."""

    def __init__(self, runs: Sequence[Run], base: Path, on_end: OnEnd, workers: int) -> None:
        self.base, self.on_end, self.workers = base, on_end, workers
        self.waiting = deque(runs)
        self.known = {run.folder for run in runs}
        self.ended = 0
        self.busy: dict[ProcessWorker, Run] = {}
        self.most_busy: dict[ProcessWorker, int] = {}
        """the largest number of busy workers while a worker's run was trained"""
        self.idle: list[ProcessWorker] = []

    def run(self) -> None:
        while self.waiting or self.busy:
            self._start_runs()
            worker = first_ready(list(self.busy), STATUS_INTERVAL)
            if worker is None:
                _print_status(f"under way: {'; '.join(map(_progress, self.busy.values()))}")
            else:
                self._receive(worker)

    def end(self) -> None:
        for worker in (*self.busy, *self.idle):
            worker.end()

    def _start_runs(self) -> None:
        while self.waiting and len(self.busy) < self.workers:
            run = self.waiting.popleft()
            worker = self.idle.pop() if self.idle else ProcessWorker(TrainingWorker, self.workers)
            worker.send("train", run.recipe, self.base)
            self.busy[worker], self.most_busy[worker] = run, 1
        for worker in self.busy:
            self.most_busy[worker] = max(self.most_busy[worker], len(self.busy))

    def _receive(self, worker: ProcessWorker) -> None:
        """The result of a worker's run; or its failure, after which the run may be tried again."""
        answer, run = worker.receive(), self.busy.pop(worker)
        beside_others = self.most_busy[worker] > 1
        if isinstance(answer, (Lost, Failed)):
            worker.end()  # memory of the device may be lost with the run
        if beside_others and isinstance(answer, Failed) and is_out_of_memory(reason(answer)):
            self.workers = min(self.workers, self.most_busy[worker] - 1)
            self.waiting.appendleft(run)
            _print_status(
                f"{run.title}: no memory left; {self.workers} at a time from now on, and it again"
            )
            return
        self.ended += 1
        if isinstance(answer, (Lost, Failed)):
            _write_failure(run, answer)
            outcome = f"failed, {reason(answer)}"
        else:
            self.idle.append(worker)
            outcome = "; ".join([_final_accuracy(answer), *RunLog.read(run).problems])
        following = [one for one in self.on_end(run) if one.folder not in self.known]
        self.known |= {one.folder for one in following}
        self.waiting.extend(following)
        total = self.ended + len(self.busy) + len(self.waiting)
        _print_status(f"{self.ended} of {total}: {run.title}: {outcome}")


class TrainingWorker:
    """What a worker process does: it trains one run after another, and imports libraries once."""

    def __init__(self, workers: int) -> None:
        """Take its share of the machine's cores."""
        os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
        import torch
        from transformers.utils import logging

        from tpo.llm.trl import micro_batch

        micro_batch.runs_on_device = workers
        torch.set_num_threads(max(1, torch.get_num_threads() // workers))
        logging.disable_progress_bar()

    def train(self, recipe: Recipe, base: Path) -> dict[str, Any]:
        """One run; what it prints goes to output.txt in its folder."""
        with _printing_to(Path(recipe.out) / "output.txt"):
            return train_or_resume(recipe, base, quiet=True)


def train_or_resume(recipe: Recipe, base: Path, quiet: bool = False) -> dict[str, Any]:
    """Train, or resume; then free the run's memory on the device."""
    import torch

    from tpo.llm.runs.train import train

    try:
        return train(recipe, (Path(recipe.out) / "recipe.json").exists(), quiet, base)
    finally:
        gc.collect()
        torch.cuda.empty_cache()


def is_out_of_memory(error: str) -> bool:
    """Whether an error says that the device was full."""
    return any(text in error for text in OUT_OF_MEMORY)


def reason(failure: Lost | Failed) -> str:
    """Why a run failed, in one line."""
    if isinstance(failure, Lost):
        return f"its process died ({failure.why})"
    return f"{failure.kind}: {failure.message}"


def _write_failure(run: Run, failure: Lost | Failed) -> None:
    kind, trace = ("Lost", "") if isinstance(failure, Lost) else (failure.kind, failure.trace)
    write_json(run.folder / "failed.json", {"error": reason(failure), "kind": kind, "trace": trace})


def _final_accuracy(result: dict[str, Any]) -> str:
    last = result["evaluations"][-1]
    return f"sampled {last['sampled']:.1%}, greedy {last['greedy']:.1%}, {result['seconds']:.0f} s"


def _progress(run: Run) -> str:
    rows = read_lines(run.folder / "log.jsonl")
    return f"{run.title} step {rows[-1]['step'] if rows else 0}/{run.recipe.steps}"


def _print_status(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


@contextlib.contextmanager
def _printing_to(path: Path) -> Iterator[None]:
    """Append to a file what this process and those that it starts print."""
    path.parent.mkdir(parents=True, exist_ok=True)
    sys.stdout.flush()
    sys.stderr.flush()
    terminal = [os.dup(1), os.dup(2)]
    with open(path, "ab") as file:
        for descriptor in (1, 2):
            os.dup2(file.fileno(), descriptor)
    try:
        yield
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        for descriptor, copy in zip((1, 2), terminal, strict=True):
            os.dup2(copy, descriptor)
            os.close(copy)

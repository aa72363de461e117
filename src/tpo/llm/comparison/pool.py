"""Runs of a comparison in several processes: whoever is free takes the next, and none takes another with it."""

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
from tpo.llm.comparison.run_log import Record
from tpo.llm.runs.artifacts import read_lines
from tpo.llm.runs.recipe import Recipe
from tpo.processes import Failed, Lost, ProcessWorker, answered, first_ready
from tpo.storage.files import write_json

TALK = 60.0
"""Seconds between two lines about what is under way."""

NO_MEMORY = ("out of memory", "STATUS_ALLOC_FAILED", "CUBLAS_STATUS_NOT_INITIALIZED")
"""What libraries say when a GPU is full."""

Then = Callable[[Run], Sequence[Run]]
"""Told of each run that ended; what is to be run now that it has."""


def in_turn(runs: Sequence[Run], base: Path, then: Then) -> None:
    """One after another, in this process; a run that raises ends them, unless it is one of tuning."""
    waiting = deque(runs)
    while waiting:
        run = waiting.popleft()
        if run.trial:
            answer = answered(trained, (run.recipe, base))
            if isinstance(answer, Failed):
                _note_failure(run, answer)
        else:
            trained(run.recipe, base)
        waiting.extend(then(run))


def in_processes(runs: Sequence[Run], base: Path, then: Then, workers: int) -> None:
    """So many at a time; a run that raises or whose process dies leaves failed.json, and the others go on.

    A run that finds no memory beside others is tried again, with one fewer at a time than they were; those that
    fail with it, before its memory is free, lower the number no further. Two runs that end together may both
    ask for what follows them: it is run once.
    """
    waiting, ended = deque(runs), 0
    known = {run.folder for run in runs}
    busy: dict[ProcessWorker, Run] = {}
    crowd: dict[ProcessWorker, int] = {}  # the most that ran at a time while its run did
    idle: list[ProcessWorker] = []
    try:
        while waiting or busy:
            while waiting and len(busy) < workers:
                run = waiting.popleft()
                worker = idle.pop() if idle else ProcessWorker(Trainee, workers)
                worker.send("train", run.recipe, base)
                busy[worker], crowd[worker] = run, 1
            crowd |= {worker: max(crowd[worker], len(busy)) for worker in busy}
            ready = first_ready(list(busy), TALK)
            if ready is None:
                _say(f"under way: {'; '.join(map(_progress, busy.values()))}")
                continue
            answer, run = ready.receive(), busy.pop(ready)
            if isinstance(answer, (Lost, Failed)):
                ready.end()  # memory of the device may be lost with the run
            if crowd[ready] > 1 and isinstance(answer, Failed) and no_memory(reason(answer)):
                workers = min(workers, crowd[ready] - 1)
                waiting.appendleft(run)
                _say(f"{run.title}: no memory left; {workers} at a time from now on, and it again")
                continue
            ended += 1
            if isinstance(answer, (Lost, Failed)):
                _note_failure(run, answer)
                words = f"failed, {reason(answer)}"
            else:
                idle.append(ready)
                words = "; ".join([_standing(answer), *Record.read(run).troubles])
            following = [one for one in then(run) if one.folder not in known]
            known |= {one.folder for one in following}
            waiting.extend(following)
            _say(f"{ended} of {ended + len(busy) + len(waiting)}: {run.title}: {words}")
    finally:
        for worker in (*busy, *idle):
            worker.end()


class Trainee:
    """What a worker does: one run after another, with libraries that it imports once."""

    def __init__(self, workers: int) -> None:
        """With its share of the machine's cores."""
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
            return trained(recipe, base, quiet=True)


def trained(recipe: Recipe, base: Path, quiet: bool = False) -> dict[str, Any]:
    """Train, or go on; then give back what the run held on the device."""
    import torch

    from tpo.llm.runs.train import train

    try:
        return train(recipe, (Path(recipe.out) / "recipe.json").exists(), quiet, base)
    finally:
        gc.collect()
        torch.cuda.empty_cache()


def no_memory(error: str) -> bool:
    """Whether an error says that the device was full."""
    return any(words in error for words in NO_MEMORY)


def reason(found: Lost | Failed) -> str:
    """Why a run failed, in a line."""
    if isinstance(found, Lost):
        return f"its process died ({found.why})"
    return f"{found.kind}: {found.message}"


def _note_failure(run: Run, found: Lost | Failed) -> None:
    kind, trace = ("Lost", "") if isinstance(found, Lost) else (found.kind, found.trace)
    noted = {"error": reason(found), "kind": kind, "trace": trace}
    write_json(run.folder / "failed.json", noted)


def _standing(result: dict[str, Any]) -> str:
    last = result["evaluations"][-1]
    return f"sampled {last['sampled']:.1%}, greedy {last['greedy']:.1%}, {result['seconds']:.0f} s"


def _progress(run: Run) -> str:
    rows = read_lines(run.folder / "log.jsonl")
    return f"{run.title} step {rows[-1]['step'] if rows else 0}/{run.recipe.steps}"


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


@contextlib.contextmanager
def _printing_to(path: Path) -> Iterator[None]:
    """What this process and those that it starts print goes to a file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    sys.stdout.flush()
    sys.stderr.flush()
    before = [os.dup(1), os.dup(2)]
    with open(path, "ab") as file:
        for place in (1, 2):
            os.dup2(file.fileno(), place)
    try:
        yield
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        for place, usual in zip((1, 2), before, strict=True):
            os.dup2(usual, place)
            os.close(usual)

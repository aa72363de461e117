"""The scheduler of all engines: it gives jobs to workers, and their answers to the store and the screen.

Only the scheduler writes to the store. A worker that dies is replaced, and its job resumes from the last
checkpoint it sent. If the scheduler dies, its workers end too, and the next run resumes from the store.
"""

from __future__ import annotations

import contextlib
import signal
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from tpo.declarations import manifest
from tpo.lab.execution import Engine, Failed, Lost, WorkerHandle
from tpo.lab.execution.jobs import Job, Shard, by_key
from tpo.lab.execution.shards import checkpoint, job_shards, shard_counts
from tpo.lab.execution.worker import Machine
from tpo.lab.studies.cost import job_seconds
from tpo.lab.training import Cell, TrainingProgress
from tpo.lab.training.environment import note_changes, origin
from tpo.lab.training.loop import Step
from tpo.storage.store import Snapshot, Store

Watcher = Callable[[Job, TrainingProgress | None], None]
"""Called when a job starts (no curves, rate 0), after each of its steps, and with None at its end."""

LOSSES = 3
"""Workers that may die on one job without a new checkpoint."""
PATIENCE = 10.0
"""Seconds that a stopped study waits for the last checkpoints of its workers."""


class Scheduler:
    """Gives jobs to the workers of an engine. A context manager: at its end all workers are stopped."""

    def __init__(self, engine: Engine, store: Store, watch: Watcher | None = None) -> None:
        """No worker is started before it is needed."""
        self.engine = engine
        self.store = store
        self.watch: Watcher = watch or (lambda job, progress: None)
        self.idle: list[WorkerHandle] = []
        self.busy: dict[WorkerHandle, Shard] = {}
        self.served: dict[str, list[Job]] = {}
        """The jobs that are run, by key: a job of two studies is run once for both."""
        self._machine: Machine | None = None

    def __enter__(self) -> Scheduler:
        return self

    def __exit__(self, *_: object) -> None:
        self.engine.close()

    def machine(self) -> Machine:
        """The machine of the first worker."""
        if self._machine is None:
            worker = self.engine.start_worker()
            worker.send("machine")
            while self.engine.wait([worker], PATIENCE) is None:
                print("waiting for a first worker", file=sys.stderr)
            found = worker.receive()
            if isinstance(found, Lost):
                raise ChildProcessError(f"a worker did not start: {found.why}")
            if isinstance(found, Failed):
                raise found.error("a worker")
            self._machine = found
            self.idle.append(worker)
        return self._machine

    def run(self, jobs: Sequence[Job]) -> None:
        """Run the jobs that the store has not; the longest first if several run at a time."""
        self.served = by_key(jobs)
        waiting = deque(self._shards(self._unfinished()))
        try:
            while waiting or self.busy:
                while waiting and (self.idle or len(self.busy) < self.engine.size):
                    self._start(waiting.popleft())
                self._stop_idle_workers()
                worker = self.engine.wait(list(self.busy))
                with delayed_interrupts():
                    lost = self._take(worker, worker.receive())
                if lost:
                    waiting.appendleft(lost)
        except BaseException:
            self._save_all()
            raise

    def _stop_idle_workers(self) -> None:
        """Stop workers without a job, so that others can use their cores."""
        while self.idle:
            self.engine.stop_worker(self.idle.pop())

    def _unfinished(self) -> list[Job]:
        left = []
        for key, (job, *_) in self.served.items():
            if self.store.curves(key) is None:
                left.append(job)
            else:
                self.store.discard(key)
                self._report_end(job)
        return left

    def _shards(self, jobs: Sequence[Job]) -> list[Shard]:
        """All unfinished shards: the longest first, or for a single worker in the declared order."""
        counts = [1] * len(jobs)
        if self.engine.splits:
            counts = shard_counts([job.cell for job in jobs], self.engine.size)
        waiting: list[Shard] = []
        for job, count in zip(jobs, counts, strict=True):
            job.shards = job_shards(job, self.store, count)
            left = [shard for shard in job.shards if self.store.curves(shard.where) is None]
            for shard in job.shards:
                if shard not in left:
                    shard.progress = TrainingProgress(job.episodes, {}, 0.0)
            waiting += left
            if not left:
                self._join_shards(job)
                self._report_end(job)
        if self.engine.size == 1:
            return waiting
        return sorted(waiting, key=lambda shard: -job_seconds(shard.cell))

    def _start(self, shard: Shard) -> None:
        job = shard.job
        description = job.cell.to_json()
        if isinstance(job.cell, Cell):
            description = {"cell": description, "environment": self.machine().environment}
        self.store.begin(job.key, description)
        saved = checkpoint(shard, self.store)
        if saved:
            note_changes(job.title, saved.origin, self._origin())
        worker = self.idle.pop() if self.idle else self.engine.start_worker()
        self.busy[worker] = shard
        worker.send(
            "start", shard.cell, saved, self.machine().environment, shard.data_parallel_size
        )
        if shard.progress is None:
            shard.progress = TrainingProgress(saved.episode if saved else 0, {}, 0.0)
            self.watch(job, job.progress())

    def _take(self, worker: WorkerHandle, answer: Step | Lost | Failed) -> Shard | None:
        """Store an answer and let the worker continue; the shard, if the worker died."""
        shard = self.busy[worker]
        job = shard.job
        if isinstance(answer, Failed):
            raise answer.error(job.title)
        if isinstance(answer, Lost):
            del self.busy[worker]
            return self._retried(shard, answer)
        if answer.curves is None:
            worker.send("step")  # sent before the disk is written, so that the worker need not wait
        self._store_step(shard, answer)
        if answer.curves is not None:
            del self.busy[worker]
            self.idle.append(worker)
        if answer.progress:
            shard.progress = answer.progress
            self.watch(job, job.progress())
        if answer.curves is not None and self.store.curves(job.key) is not None:
            self._report_end(job)
        return None

    def _store_step(self, shard: Shard, step: Step) -> None:
        shard.seconds += step.seconds
        if step.curves is not None:
            self.store.finish(shard.where, step.curves)
            self._join_shards(shard.job)
            self._write_cost(shard)
        elif step.saved is not None:
            self._save(shard, step.saved)
            shard.losses = 0

    def _origin(self) -> dict[str, str]:
        machine = self.machine()
        return origin(machine.environment, machine.device)

    def _join_shards(self, job: Job) -> None:
        """Join the shards of a job under its own key, once all are finished."""
        if job.shards[0].where != job.key:
            found = [self.store.curves(shard.where) for shard in job.shards]
            whole = [curves for curves in found if curves is not None]
            if len(whole) == len(found):
                self.store.finish(job.key, self.store.joined(job.key, whole))

    def _save(self, shard: Shard, saved: Snapshot) -> None:
        self.store.save(shard.where, saved._replace(origin=self._origin()))
        self._write_cost(shard)

    def _write_cost(self, shard: Shard) -> None:
        """Write the cost so far, and the code and machine of the last step."""
        job, device = shard.job, self.machine().device
        provenance = manifest.provenance(job.first_seed, job.seeds, device)
        self.store.add_cost(job.key, shard.seconds, provenance)
        shard.seconds = 0.0

    def _report_end(self, job: Job) -> None:
        for one in self.served[job.key]:
            self.watch(one, None)

    def _retried(self, shard: Shard, found: Lost) -> Shard:
        """The shard, for another worker; raises after too many losses."""
        shard.losses += 1
        title = shard.job.title
        if shard.losses == LOSSES:
            raise ChildProcessError(
                f"{LOSSES} workers died on {title} ({found.why}) without progress: if memory "
                "was short, try fewer --workers. What is done so far is saved"
            )
        print(f"a worker died ({found.why}); another takes {title}", file=sys.stderr)
        return shard

    def _save_all(self) -> None:
        """Save a last checkpoint of every worker that answers in time."""
        for worker, shard in self.busy.items():
            worker.send("snapshot", shard.cell.key)
        end = time.monotonic() + PATIENCE
        with contextlib.suppress(
            OSError
        ):  # a full disk: it stopped us, or only a checkpoint is missing
            while self.busy and (left := end - time.monotonic()) > 0:
                worker = self.engine.wait(list(self.busy), left)
                if worker is not None:
                    self._take_last(worker, worker.receive())

    def _take_last(
        self, worker: WorkerHandle, answer: Step | Snapshot | Lost | Failed | None
    ) -> None:
        """Store an answer after the stop: a step that was under way comes first, then the checkpoint."""
        if isinstance(answer, Step):
            self._store_step(self.busy[worker], answer)
            if answer.curves is None:
                return
        elif isinstance(answer, Snapshot):
            self._save(self.busy[worker], answer)
        del self.busy[worker]


@contextlib.contextmanager
def delayed_interrupts() -> Iterator[None]:
    """Delay Ctrl-C to the end of the block, so that no message is half read and no answer is lost."""
    main_thread = threading.current_thread() is threading.main_thread()
    if not main_thread or not callable(signal.getsignal(signal.SIGINT)):
        yield
        return
    heard: list[Any] = []
    before = signal.signal(signal.SIGINT, lambda *_: heard.append(True))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if heard:
        raise KeyboardInterrupt

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
from typing import TYPE_CHECKING, Any

from tpo.declarations import manifest
from tpo.lab.execution import Engine, Failed, Lost, WorkerHandle
from tpo.lab.execution.assignments import Assignment, SharedJob, shared_jobs
from tpo.lab.execution.shards import checkpoint, job_shards, shard_counts
from tpo.lab.execution.worker import Machine, Step
from tpo.lab.studies.cost import job_seconds
from tpo.lab.training import Cell, TrainingProgress
from tpo.lab.training.environment import note_changes, origin
from tpo.storage.store import Snapshot, Store, joined

if TYPE_CHECKING:  # the runner imports this module
    from tpo.lab.execution.runner import PlannedJob

Watcher = Callable[["PlannedJob", TrainingProgress | None], None]
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
        self.watch: Watcher = watch or (lambda planned, progress: None)
        self.idle: list[WorkerHandle] = []
        self.busy: dict[WorkerHandle, Assignment] = {}
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

    def run(self, planned: Sequence[PlannedJob]) -> None:
        """Run the jobs that the store has not; the longest first if several run at a time."""
        waiting = deque(self._assignments(self._unfinished(shared_jobs(planned))))
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

    def _unfinished(self, found: Sequence[SharedJob]) -> list[SharedJob]:
        left = []
        for shared_job in found:
            if self.store.curves(shared_job.key) is None:
                left.append(shared_job)
            else:
                self.store.discard(shared_job.key)
                self._report_end(shared_job)
        return left

    def _assignments(self, found: Sequence[SharedJob]) -> list[Assignment]:
        """All unfinished shards: the longest first, or for a single worker in the declared order."""
        counts = [1] * len(found)
        if self.engine.splits:
            counts = shard_counts([shared_job.job for shared_job in found], self.engine.size)
        assignments = []
        for shared_job, count in zip(found, counts, strict=True):
            shared_job.shards = job_shards(shared_job.job, self.store, count)
            left = [shard for shard in shared_job.shards if self.store.curves(shard.where) is None]
            ended = TrainingProgress(shared_job.planned[0].episodes, {}, 0.0)
            shared_job.steps = {shard: ended for shard in shared_job.shards if shard not in left}
            if left:
                assignments += [Assignment(shared_job, shard) for shard in left]
            else:
                self._join_shards(shared_job)
                self._report_end(shared_job)
        if self.engine.size == 1:
            return assignments
        return sorted(assignments, key=lambda assignment: -job_seconds(assignment.shard.job))

    def _start(self, assignment: Assignment) -> None:
        shared_job, shard = assignment.shared_job, assignment.shard
        description = shared_job.job.to_json()
        if isinstance(shared_job.job, Cell):
            description = {"cell": description, "environment": self.machine().environment}
        self.store.begin(shared_job.key, description)
        saved = checkpoint(shard, shared_job.job, self.store)
        if saved:
            note_changes(shared_job.title, saved.origin, self._origin())
        worker = self.idle.pop() if self.idle else self.engine.start_worker()
        self.busy[worker] = assignment
        worker.send("start", shard.job, saved, self.machine().environment, shard.data_parallel_size)
        if shard not in shared_job.steps:
            shared_job.steps[shard] = TrainingProgress(saved.episode if saved else 0, {}, 0.0)
            self.watch(shared_job.planned[0], shared_job.progress())

    def _take(self, worker: WorkerHandle, answer: Step | Lost | Failed) -> Assignment | None:
        """Store an answer and let the worker continue; the assignment, if the worker died."""
        assignment = self.busy[worker]
        shared_job, shard = assignment.shared_job, assignment.shard
        if isinstance(answer, Failed):
            raise answer.error(shared_job.title)
        if isinstance(answer, Lost):
            del self.busy[worker]
            return self._retried(assignment, answer)
        if answer.curves is None:
            worker.send("step")  # sent before the disk is written, so that the worker need not wait
        self._store_step(assignment, answer)
        if answer.curves is not None:
            del self.busy[worker]
            self.idle.append(worker)
        if answer.progress:
            shared_job.steps[shard] = answer.progress
            self.watch(shared_job.planned[0], shared_job.progress())
        if answer.curves is not None and self.store.curves(shared_job.key) is not None:
            self._report_end(shared_job)
        return None

    def _store_step(self, assignment: Assignment, step: Step) -> None:
        shared_job = assignment.shared_job
        shared_job.seconds += step.seconds
        if step.curves is not None:
            self.store.finish(assignment.shard.where, step.curves)
            self._join_shards(shared_job)
            self._write_cost(shared_job)
        elif step.saved is not None:
            self._save(assignment, step.saved)
            assignment.losses = 0

    def _origin(self) -> dict[str, str]:
        machine = self.machine()
        return origin(machine.environment, machine.device)

    def _join_shards(self, shared_job: SharedJob) -> None:
        """Join the shards of a job under its own key, once all are finished."""
        if shared_job.shards[0].where != shared_job.key:
            found = [self.store.curves(shard.where) for shard in shared_job.shards]
            whole = [curves for curves in found if curves is not None]
            if len(whole) == len(found):
                self.store.finish(shared_job.key, joined(whole))

    def _save(self, assignment: Assignment, saved: Snapshot) -> None:
        self.store.save(assignment.shard.where, saved._replace(origin=self._origin()))
        self._write_cost(assignment.shared_job)

    def _write_cost(self, shared_job: SharedJob) -> None:
        """Write the cost so far, and the code and machine of the last step."""
        planned, device = shared_job.planned[0], self.machine().device
        provenance = manifest.provenance(planned.first_seed, planned.seeds, device)
        self.store.add_cost(shared_job.key, shared_job.seconds, provenance)
        shared_job.seconds = 0.0

    def _report_end(self, shared_job: SharedJob) -> None:
        for planned in shared_job.planned:
            self.watch(planned, None)

    def _retried(self, assignment: Assignment, found: Lost) -> Assignment:
        """The assignment, for another worker; raises after too many losses."""
        assignment.losses += 1
        title = assignment.shared_job.title
        if assignment.losses == LOSSES:
            raise ChildProcessError(
                f"{LOSSES} workers died on {title} ({found.why}) without progress: if memory "
                "was short, try fewer --workers. What is done so far is saved"
            )
        print(f"a worker died ({found.why}); another takes {title}", file=sys.stderr)
        return assignment

    def _save_all(self) -> None:
        """Save a last checkpoint of every worker that answers in time."""
        for worker, assignment in self.busy.items():
            worker.send("snapshot", assignment.shard.job.key)
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

"""The one loop of all engines: jobs go to workers, what they answer goes to the store and the screen.

Only the driver writes to the store. A worker that dies is replaced, and its job goes on from the last
checkpoint it sent; a driver that dies takes its workers along, and the next one goes on from the store.
"""

from __future__ import annotations

import contextlib
import signal
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tpo.results.files import write_json
from tpo.results.loaded import cost
from tpo.results.store import Snapshot, Store
from tpo.studies import manifest
from tpo.studies.engines import Engine, Failed, Lost, Worker
from tpo.studies.engines.bench import Machine, Step

if TYPE_CHECKING:
    from tpo.studies.recipes import Job
    from tpo.studies.runner import Planned
    from tpo.training import Progress

Watcher = Callable[["Planned", "Progress | None"], None]
"""Told of each job that starts (no curves, rate 0), of each of its steps, and with None of its end."""

LOSSES = 3
"""Workers that may die of one job, one after the other, before it gets any further."""
PATIENCE = 10.0
"""Seconds that a stopped study gives its workers for a last checkpoint."""


@dataclass(eq=False)
class Task:
    """A job to be done once, for everyone who planned it."""

    planned: list[Planned]
    losses: int = 0
    seconds: float = 0.0
    """Spent since its cost was last noted."""

    @property
    def title(self) -> str:
        return self.planned[0].title

    @property
    def job(self) -> Job:
        return self.planned[0].job

    @property
    def key(self) -> str:
        return self.job.key


def tasks(planned: Sequence[Planned]) -> list[Task]:
    """Each key once, in the order of its first appearance."""
    found: dict[str, Task] = {}
    for one in planned:
        key = one.job.key
        if key in found:
            found[key].planned.append(one)
        else:
            found[key] = Task([one])
    return list(found.values())


class Driver:
    """Hands jobs to the workers of an engine. Use as a context: nothing that was started is left."""

    def __init__(self, engine: Engine, store: Store, watch: Watcher | None = None) -> None:
        """No worker is started before one is needed."""
        self.engine = engine
        self.store = store
        self.watch: Watcher = watch or (lambda planned, progress: None)
        self.idle: list[Worker] = []
        self.busy: dict[Worker, Task] = {}
        self._machine: Machine | None = None

    def __enter__(self) -> Driver:
        return self

    def __exit__(self, *_: object) -> None:
        self.engine.close()

    def machine(self) -> Machine:
        """Where the first worker computes."""
        if self._machine is None:
            worker = self.engine.hire()
            worker.send("machine")
            self.engine.wait([worker])
            found = worker.receive()
            if isinstance(found, Lost):
                raise ChildProcessError(f"a worker did not start: {found.why}")
            if isinstance(found, Failed):
                raise found.error("a worker")
            self._machine = found
            self.idle.append(worker)
        return self._machine

    def run(self, planned: Sequence[Planned]) -> None:
        """Run what the store has not; the longest first where several run at a time."""
        waiting = deque(self._unfinished(tasks(planned)))
        try:
            while waiting or self.busy:
                while waiting and (self.idle or len(self.busy) < self.engine.size):
                    self._start(waiting.popleft())
                worker = self.engine.wait(list(self.busy))
                with interrupts_later():
                    lost = self._take(worker, worker.receive())
                if lost:
                    waiting.appendleft(lost)
        except BaseException:
            self._stop()
            raise

    def _unfinished(self, found: Sequence[Task]) -> list[Task]:
        left = []
        for task in found:
            if self.store.curves(task.key) is None:
                left.append(task)
            else:
                self._tell_end(task)
        if self.engine.size == 1:
            return left
        from tpo.studies.cost import job_seconds

        return sorted(left, key=lambda task: -job_seconds(task.job))

    def _start(self, task: Task) -> None:
        from tpo.training import Cell, Progress

        description = task.job.to_json()
        if isinstance(task.job, Cell):
            description = {"cell": description, "environment": self.machine().environment}
        self.store.begin(task.key, description)
        saved = self.store.checkpoint(task.key)
        worker = self.idle.pop() if self.idle else self.engine.hire()
        self.busy[worker] = task
        worker.send("start", task.job, saved)
        self.watch(task.planned[0], Progress(saved.episode if saved else 0, {}, 0.0))

    def _take(self, worker: Worker, answer: Step | Lost | Failed) -> Task | None:
        """Keep what a worker answered, and let it go on; the task, if the worker died of it."""
        task = self.busy[worker]
        if isinstance(answer, Failed):
            raise answer.error(task.title)
        if isinstance(answer, Lost):
            del self.busy[worker]
            return self._lost(task, answer)
        if answer.curves is None:
            worker.send("step")  # before the disk is written: the worker need not wait for it
        self._keep(task, answer)
        if answer.curves is not None:
            del self.busy[worker]
            self.idle.append(worker)
        if answer.progress:
            self.watch(task.planned[0], answer.progress)
        if answer.curves is not None:
            self._tell_end(task)
        return None

    def _keep(self, task: Task, step: Step) -> None:
        task.seconds += step.seconds
        if step.curves is not None:
            self.store.finish(task.key, step.curves)
            self._note_cost(task)
        elif step.saved is not None:
            self._save(task, step.saved)
            task.losses = 0

    def _save(self, task: Task, saved: Snapshot) -> None:
        self.store.save(task.key, saved)
        self._note_cost(task)

    def _note_cost(self, task: Task) -> None:
        """What the run has cost so far, and the code and machine that it was last computed with."""
        found = {
            "seconds": round(cost(self.store.folder, task.key) + task.seconds, 3),
            "provenance": manifest.provenance(task.planned[0].seeds, self.machine().device),
        }
        write_json(self.store.folder / task.key / "cost.json", found)
        task.seconds = 0.0

    def _tell_end(self, task: Task) -> None:
        for planned in task.planned:
            self.watch(planned, None)

    def _lost(self, task: Task, found: Lost) -> Task:
        task.losses += 1
        if task.losses == LOSSES:
            raise ChildProcessError(
                f"{LOSSES} workers died of {task.title} ({found.why}) and it got no further: perhaps "
                "memory was short, then try fewer --workers. What is done so far is saved"
            )
        print(f"a worker died ({found.why}); another takes {task.title}", file=sys.stderr)
        return task

    def _stop(self) -> None:
        """Save what the workers did since their last checkpoint, as far as they answer in time."""
        for worker, task in self.busy.items():
            worker.send("snapshot", task.key)
        end = time.monotonic() + PATIENCE
        with contextlib.suppress(
            OSError
        ):  # a full disk: what stopped us, or no more than a checkpoint
            while self.busy and (left := end - time.monotonic()) > 0:
                worker = self.engine.wait(list(self.busy), left)
                if worker is not None:
                    self._take_last(worker, worker.receive())

    def _take_last(self, worker: Worker, answer: Step | Snapshot | Lost | Failed | None) -> None:
        """A step that was under way comes first, then the checkpoint."""
        if isinstance(answer, Step):
            self._keep(self.busy[worker], answer)
            if answer.curves is None:
                return
        elif isinstance(answer, Snapshot):
            self._save(self.busy[worker], answer)
        del self.busy[worker]


@contextlib.contextmanager
def interrupts_later() -> Iterator[None]:
    """Ctrl-C is heard at the end, so that no message is read by half and no answer is dropped."""
    in_charge = threading.current_thread() is threading.main_thread()
    if not in_charge or not callable(signal.getsignal(signal.SIGINT)):
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

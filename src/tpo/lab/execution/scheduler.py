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
from typing import TYPE_CHECKING, Any

from tpo.lab.execution import Engine, Failed, Lost, Worker
from tpo.lab.execution.assignments import Errand, Task, tasks
from tpo.lab.execution.shards import checkpoint, pieces, shares
from tpo.lab.execution.worker import Machine, Step
from tpo.lab.studies import manifest
from tpo.storage.files import write_json
from tpo.storage.store import Snapshot, Store, cost, joined

if TYPE_CHECKING:
    from tpo.lab.execution.runner import Planned
    from tpo.lab.training import Progress

Watcher = Callable[["Planned", "Progress | None"], None]
"""Told of each job that starts (no curves, rate 0), of each of its steps, and with None of its end."""

LOSSES = 3
"""Workers that may die of one job, one after the other, before it gets any further."""
PATIENCE = 10.0
"""Seconds that a stopped study gives its workers for a last checkpoint."""


class Driver:
    """Hands jobs to the workers of an engine. Use as a context: nothing that was started is left."""

    def __init__(self, engine: Engine, store: Store, watch: Watcher | None = None) -> None:
        """No worker is started before one is needed."""
        self.engine = engine
        self.store = store
        self.watch: Watcher = watch or (lambda planned, progress: None)
        self.idle: list[Worker] = []
        self.busy: dict[Worker, Errand] = {}
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

    def run(self, planned: Sequence[Planned]) -> None:
        """Run what the store has not; the longest first where several run at a time."""
        waiting = deque(self._errands(self._unfinished(tasks(planned))))
        try:
            while waiting or self.busy:
                while waiting and (self.idle or len(self.busy) < self.engine.size):
                    self._start(waiting.popleft())
                self._dismiss_idle()
                worker = self.engine.wait(list(self.busy))
                with interrupts_later():
                    lost = self._take(worker, worker.receive())
                if lost:
                    waiting.appendleft(lost)
        except BaseException:
            self._stop()
            raise

    def _dismiss_idle(self) -> None:
        """Free the place of a worker that has nothing more to do: another may be waiting for one."""
        while self.idle:
            self.engine.dismiss(self.idle.pop())

    def _unfinished(self, found: Sequence[Task]) -> list[Task]:
        left = []
        for task in found:
            if self.store.curves(task.key) is None:
                left.append(task)
            else:
                self._tell_end(task)
        return left

    def _errands(self, found: Sequence[Task]) -> list[Errand]:
        """All pieces that are not finished: the longest first; for a single worker, as declared."""
        from tpo.lab.studies.cost import job_seconds
        from tpo.lab.training import Progress

        parts = [1] * len(found)
        if self.engine.splits:
            parts = shares([task.job for task in found], self.engine.size)
        errands = []
        for task, count in zip(found, parts, strict=True):
            task.pieces = pieces(task.job, self.store, count)
            left = [piece for piece in task.pieces if self.store.curves(piece.where) is None]
            ended = Progress(task.planned[0].episodes, {}, 0.0)
            task.steps = {piece: ended for piece in task.pieces if piece not in left}
            if left:
                errands += [Errand(task, piece) for piece in left]
            else:
                self._end(task)
                self._tell_end(task)
        if self.engine.size == 1:
            return errands
        return sorted(errands, key=lambda errand: -job_seconds(errand.piece.job))

    def _start(self, errand: Errand) -> None:
        from tpo.lab.training import Cell, Progress

        task, piece = errand.task, errand.piece
        description = task.job.to_json()
        if isinstance(task.job, Cell):
            description = {"cell": description, "environment": self.machine().environment}
        self.store.begin(task.key, description)
        saved = checkpoint(piece, task.job, self.store)
        worker = self.idle.pop() if self.idle else self.engine.hire()
        self.busy[worker] = errand
        worker.send("start", piece.job, saved, self.machine().environment, piece.lanes)
        if piece not in task.steps:
            task.steps[piece] = Progress(saved.episode if saved else 0, {}, 0.0)
            self.watch(task.planned[0], task.progress())

    def _take(self, worker: Worker, answer: Step | Lost | Failed) -> Errand | None:
        """Keep what a worker answered, and let it go on; the errand, if the worker died of it."""
        errand = self.busy[worker]
        task, piece = errand.task, errand.piece
        if isinstance(answer, Failed):
            raise answer.error(task.title)
        if isinstance(answer, Lost):
            del self.busy[worker]
            return self._lost(errand, answer)
        if answer.curves is None:
            worker.send("step")  # before the disk is written: the worker need not wait for it
        self._keep(errand, answer)
        if answer.curves is not None:
            del self.busy[worker]
            self.idle.append(worker)
        if answer.progress:
            task.steps[piece] = answer.progress
            self.watch(task.planned[0], task.progress())
        if answer.curves is not None and self.store.curves(task.key) is not None:
            self._tell_end(task)
        return None

    def _keep(self, errand: Errand, step: Step) -> None:
        task = errand.task
        task.seconds += step.seconds
        if step.curves is not None:
            self.store.finish(errand.piece.where, step.curves)
            self._end(task)
            self._note_cost(task)
        elif step.saved is not None:
            self._save(errand, step.saved)
            errand.losses = 0

    def _end(self, task: Task) -> None:
        """Join the pieces of a task, once all are there, under its own key."""
        if task.pieces[0].where != task.key:
            found = [self.store.curves(piece.where) for piece in task.pieces]
            whole = [curves for curves in found if curves is not None]
            if len(whole) == len(found):
                self.store.finish(task.key, joined(whole))

    def _save(self, errand: Errand, saved: Snapshot) -> None:
        self.store.save(errand.piece.where, saved)
        self._note_cost(errand.task)

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

    def _lost(self, errand: Errand, found: Lost) -> Errand:
        errand.losses += 1
        title = errand.task.title
        if errand.losses == LOSSES:
            raise ChildProcessError(
                f"{LOSSES} workers died of {title} ({found.why}) and it got no further: perhaps "
                "memory was short, then try fewer --workers. What is done so far is saved"
            )
        print(f"a worker died ({found.why}); another takes {title}", file=sys.stderr)
        return errand

    def _stop(self) -> None:
        """Save what the workers did since their last checkpoint, as far as they answer in time."""
        for worker, errand in self.busy.items():
            worker.send("snapshot", errand.piece.job.key)
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

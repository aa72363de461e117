"""Runs of your own (`tpo run --methods ...`): a study of one task, declared by the options of a command."""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import TYPE_CHECKING, Any

import tpo
from tpo.declarations.study import ERROR, EXPLAINED, Measure, Scale, Study
from tpo.lab.names import OPTIMISERS, REWARDS, TARGETS
from tpo.lab.own_tasks import made_task
from tpo.lab.studies.method_specs import CRITIC, bandit_row, sequence_row, uses_critic
from tpo.objectives.base import check_group_size
from tpo.objectives.method_syntax import parse
from tpo.options import COUNT, NAME, POSITIVE, TEXT, WHOLE, check, one_of, option, optional, whole
from tpo.user_code import is_spec, split_options

if TYPE_CHECKING:
    from tpo.lab.tasks import Task

HELD_OUT = Measure("test_error", "held-out error", log=True)
SCALE = "own"
ABOUT = "Runs of your own: every method learns the same task with the same settings."
TASKS = {
    "sequences": ("horizon", "vocab", "target", "reward"),
    "digits": (),
    "mnist": ("mnist_path",),
    "bandit": ("arms",),
}
"""Tasks of the library, and their options."""
TASK = replace(
    one_of(*TASKS), accepts=f"one of {', '.join(TASKS)}, or a class of yours as FILE.py:CLASS"
)
GROUPED = ("sequence", "token")
"""Kinds of rollout whose groups have `group_size` candidates."""
OF_RUN = ("epochs", "optimiser")
"""Options of a method that are not its objective's."""


@dataclass(frozen=True)
class OwnRun:
    """A task, and how it is trained: what is equal for every method."""

    task: str = option("sequences", NAME, f"{', '.join(TASKS)}, or FILE.py:CLASS[:option=value]")
    horizon: int = option(10, COUNT, "tokens to produce")
    vocab: int = option(2, whole(2), "tokens to choose from")
    target: str = option("reverse_copy", one_of(*TARGETS), ", ".join(TARGETS))
    reward: str = option("terminal", one_of(*REWARDS), ", ".join(REWARDS))
    arms: int = option(10, whole(2), "arms of the bandit")
    mnist_path: str = option("", TEXT, "an .npz of MNIST", unset="downloaded")
    group_size: int = option(8, COUNT, "candidates per context, K")
    batch: int = option(100, COUNT, "contexts per batch")
    epochs: int | None = option(None, optional(COUNT), "epochs per batch", unset="the method's")
    episodes: int = option(500, COUNT, "batches, one after the other")
    optimiser: str | None = option(
        None, optional(one_of(*OPTIMISERS)), ", ".join(OPTIMISERS), unset="the paper's"
    )
    learning_rate: float = option(1e-3, POSITIVE, "of the optimiser")
    match: str = option(
        "prompts",
        one_of("prompts", "interactions"),
        "what methods of one rollout per prompt have as many of as group methods: prompts or interactions",
    )
    delay: int = option(0, WHOLE, "episodes by which the actor lags")
    evaluate_every: int = option(0, WHOLE, "episodes between held-out tests", unset="none")

    def __post_init__(self) -> None:
        check(self)

    def check_methods(self, methods: Sequence[str]) -> None:
        """Name a wrong method, option or task, before JAX is imported."""
        for method in methods:
            name, options = parse(method)
            if is_spec(name):  # first, since the file of a task may import JAX
                own = {k: v for k, v in options.items() if k not in OF_RUN}
                tpo.objective(name, **{k: v for k, v in own.items() if not k.startswith(CRITIC)})
        own_task = is_spec(split_options(self.task)[0])
        if not own_task:
            TASK.check("--task", self.task)
        for method in methods:
            _check_any(method) if own_task else self._check(method)
        if own_task:
            made_task(self.task)

    def check_of_task(self, given: Iterable[str]) -> None:
        """Refuse options of another task, which would change nothing."""
        task_of = {name: task for task, names in TASKS.items() for name in names}
        for name in given:
            if name in task_of and name not in TASKS.get(self.task, ()):
                raise ValueError(
                    f"{name} is an option of --task {task_of[name]}, and --task is {self.task}: "
                    "leave it out, or change the task"
                )

    def _check(self, method: str) -> None:
        """A method on a task of the library."""
        of_task = sequence_row if self.task == "sequences" and self.horizon > 1 else bandit_row
        row = of_task(method)
        if row.kind in GROUPED:
            check_group_size(row.objective, "--group-size", self.group_size)
        if "correct" in row.options and not self.delay:
            raise ValueError(
                f"method {method!r} holds correct, which compares the learner's log-probs with those of an "
                "actor that lags: give --delay, or leave correct out"
            )
        if row.kind == "token" and self.reward == "terminal":
            raise ValueError(
                f"method {method!r} scores each token when it is taken, and --reward terminal waits for "
                "the end: give --reward bag or sequential, or a method without _token"
            )

    def study(self, methods: Sequence[str], seeds: int = 1) -> Study:
        """The study of these methods: another task or setting is another study, another size is not."""
        from tpo.lab.studies.builders import task_of
        from tpo.lab.training.registry import described

        task = task_of(self)
        settings = self._settings(task)
        of_task = {name: getattr(self, name) for name in TASKS.get(self.task, ())}
        text = json.dumps([described(task), settings])
        held_out = bool(self.evaluate_every) and task.held_out(task.load()) is not None
        row_of = sequence_row if task.length > 1 else bandit_row
        has_critic = any(uses_critic(row_of(name)) for name in methods)
        return Study(
            name=f"run-{hashlib.sha256(text.encode()).hexdigest()[:8]}",
            title=repr(task),
            source="own run",
            about=ABOUT,
            build="own",
            methods=tuple(methods),
            settings={"task": self.task, **of_task, **settings},
            scales={SCALE: Scale(seeds, self.episodes)},
            measures=(HELD_OUT,) * held_out + (ERROR,) + (EXPLAINED,) * has_critic,
            extra=True,
        )

    def _settings(self, task: Task) -> dict[str, Any]:
        """How the task is trained; options at their usual value are left out."""
        found = {
            "batch": self.batch,
            "group_size": self.group_size,
            "optimiser": self.optimiser or ("muon" if task.length > 1 else "adam"),
            "learning_rate": self.learning_rate,
        }
        unusual = ("match", "delay", "evaluate_every", "epochs")
        return found | {k: v for k in unusual if (v := getattr(self, k)) != _USUAL[k]}

    def flags(self) -> list[str]:
        """The words of the command for what differs from the defaults."""
        changed = {k: v for k, v in asdict(self).items() if v != _USUAL[k]}
        return [word for k, v in changed.items() for word in (f"--{k.replace('_', '-')}", str(v))]


_USUAL = {f.name: f.default for f in fields(OwnRun)}


def _check_any(method: str) -> None:
    """A method for a task of one's own, of which it is not known yet how many actions it takes."""
    try:
        sequence_row(method)
    except (TypeError, ValueError) as error:
        with contextlib.suppress(TypeError, ValueError):
            bandit_row(method)
            return
        raise error from None

"""Progress of a training run: a log of every step, evaluations, a line or a bar on the terminal, samples."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from transformers import TrainerCallback

from tpo.llm.rewards.pool import text_of
from tpo.llm.runs import models
from tpo.llm.runs.artifacts import keep_rows, read_lines, write_lines
from tpo.llm.runs.evaluation import check_scored
from tpo.llm.runs.prompts import prompt_text
from tpo.llm.runs.recipe import Recipe

if TYPE_CHECKING:
    from tpo.llm.runs.train import TrainingSetup

SHOWN = {
    "reward": "reward",
    "pass": "pass@K",
    "groups/zero_variance": "zero variance",
    "target/kl": "KL(q‖p)",
    "entropy": "entropy",
    "completions/mean_length": "length",
}
"""Metrics shown on the terminal: key of the log, name on the terminal."""
SHOWN_BESIDE_BAR = 4
"""The number of metrics that fit beside the bar."""

LINE_SECONDS = 5.0
"""Seconds between two lines where stderr is not a terminal, at least."""


class StepLogger(TrainerCallback):  # type: ignore[misc]
    """Writes DIR/log.jsonl and DIR/samples.jsonl, and shows the progress of each step on stderr."""

    def __init__(self, trainer: Any, folder: Path, samples: int = 0, quiet: bool = False) -> None:
        """`samples` completions are shown with each step; samples.jsonl has all of the last rollout batch."""
        self.trainer = trainer
        self.folder = folder
        self.samples = samples
        self.quiet = quiet
        self._bar: Any = None
        self._printed: float | None = None

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Drop the rows that were logged after the checkpoint that is resumed from."""
        if not state.is_world_process_zero:
            return
        every = state.logging_steps if args.logging_strategy == "steps" else state.max_steps + 1
        logged = range(every, state.max_steps + 1, every)
        _print_missing(keep_rows(self.folder / "log.jsonl", logged, state.global_step))
        if not self.quiet and sys.stderr.isatty():
            self._bar = _bar(state.max_steps, state.global_step)

    def on_log(
        self, args: Any, state: Any, control: Any, logs: dict[str, Any] | None = None, **_: Any
    ) -> None:
        """Write one row of the log."""
        if not state.is_world_process_zero or not logs or "train_runtime" in logs:
            return
        row = {"step": state.global_step, **{k: v for k, v in logs.items() if k != "epoch"}}
        with open(self.folder / "log.jsonl", "a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")
        write_lines(self.folder / "samples.jsonl", self._last_batch())
        if not self.quiet:
            self._show(state, row)

    def on_train_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """After the last step."""
        self.close()

    def close(self) -> None:
        """Stop the bar, if there is one."""
        if self._bar is not None:
            self._bar[0].stop()

    def _show(self, state: Any, row: dict[str, Any]) -> None:
        numbers = [f"{name} {value:.3g}" for name, value in shown_metrics(row).items()]
        if self._bar is None and self._is_due(state):
            line = f"step {state.global_step}/{state.max_steps}  {'  '.join(numbers)}"
            print(line, file=sys.stderr, flush=True)
        elif self._bar is not None:
            bar, task = self._bar
            beside = "  ".join(numbers[:SHOWN_BESIDE_BAR])
            bar.update(task, completed=state.global_step, numbers=beside)
        for sample in self._last_batch()[: self.samples]:
            self._print(f"  {sample['prompt']!r} -> {sample['completion']!r}: {sample['scores']}")

    def _is_due(self, state: Any) -> bool:
        """Whether to print a plain line: for the first and the last step, and every few seconds."""
        now = time.monotonic()
        due = self._printed is None or state.global_step >= state.max_steps
        if not due and self._printed is not None:
            due = now - self._printed >= LINE_SECONDS
        self._printed = now if due else self._printed
        return due

    def _print(self, text: str) -> None:
        if self._bar is None:
            print(text, file=sys.stderr)
        else:
            self._bar[0].console.print(text, markup=False, highlight=False)

    def _last_batch(self) -> list[dict[str, Any]]:
        logs = self.trainer._logs
        scores = {name: list(values) for name, values in logs["rewards"].items()}
        return [
            {
                "prompt": prompt_text(prompt),
                "completion": text_of(completion),
                "scores": {name: _number(values[i]) for name, values in scores.items()},
            }
            for i, (prompt, completion) in enumerate(
                zip(logs["prompt"], logs["completion"], strict=False)
            )
        ]


class Evaluator(TrainerCallback):  # type: ignore[misc]
    """Evaluates on held-out prompts before, during and after training; into DIR/evaluations.jsonl."""

    def __init__(self, setup: TrainingSetup, recipe: Recipe) -> None:
        """Its scoring counts failures apart from training's."""
        self.setup, self.recipe = setup, recipe
        self.scoring = setup.scoring.with_own_failures()
        self.path = Path(recipe.out) / "evaluations.jsonl"

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Evaluate before the first step; on a resume, drop the evaluations after the checkpoint."""
        if not state.is_world_process_zero:
            return
        every = self.recipe.in_steps(self.recipe.eval_every) or state.max_steps
        missing = keep_rows(self.path, range(0, state.max_steps, every), state.global_step)
        if state.global_step == 0:
            self._evaluate(state)
        else:
            _print_missing(missing)

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Every `eval_every` steps, or rollout batches, but not after the last step."""
        every = self.recipe.in_steps(self.recipe.eval_every)
        if every and state.global_step % every == 0 and state.global_step < state.max_steps:
            self._evaluate(state)

    def on_train_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """After the last step."""
        initial_model = None
        if self.recipe.eval_kl:
            initial_model = models.read_model(self.setup.source, self.setup.trainer.model)
        self._evaluate(state, initial_model)

    def _evaluate(self, state: Any, initial_model: Any = None) -> None:
        rows = read_lines(self.path)
        if any(row["step"] == state.global_step for row in rows) or not state.is_world_process_zero:
            return
        evaluation = self.setup.evaluate(self.scoring, self.recipe.eval_samples, initial_model)
        if state.global_step == 0:
            check_scored(evaluation, self.scoring)
        write_lines(self.path, [*rows, {"step": state.global_step, **evaluation._asdict()}])


class AllStepsTakenError(Exception):
    """A run was resumed from the checkpoint of its last step."""


class NoStepTooMany(TrainerCallback):  # type: ignore[misc]
    """Ends a resume from the checkpoint of the last step, after which transformers would take one more."""

    def on_step_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Before a batch of prompts is sampled; transformers looks at no flag until it has trained on it."""
        if state.global_step >= state.max_steps:
            raise AllStepsTakenError


def _print_missing(message: str | None) -> None:
    if message:
        print(f"{message}: results of the run will lack them", file=sys.stderr)


def shown_metrics(row: dict[str, Any]) -> dict[str, float]:
    """The metrics of a log row that are shown on the terminal, by their names there."""
    shown = {}
    for key, name in SHOWN.items():
        for logged, value in row.items():
            if (logged == key or logged.partition("@")[0] == key) and isinstance(
                value, (int, float)
            ):
                shown[logged if key == "pass" else name] = float(value)
    return shown


def _number(x: float) -> float | None:
    return x if x == x else None  # JSON has no NaN


def _bar(total: int, done: int) -> tuple[Any, Any]:
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    bar = Progress(
        BarColumn(bar_width=10),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[numbers]}"),
        console=Console(stderr=True),
    )
    bar.start()
    return bar, bar.add_task("", total=total, completed=done, numbers="")
